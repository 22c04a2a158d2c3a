import type { Socket } from "node:net";

/**
 * Every TCP connection of the door, logged in or not. At the limit, a new connection replaces the oldest one that has
 * not logged in, so that silent clients cannot keep others out. If all have logged in, the new one is refused.
 */
export class OpenSockets {
  readonly #max: number;
  readonly #all = new Set<Socket>();
  /** Those that have not logged in, the oldest first; by peer, which finds the connection below a TLS socket. */
  readonly #strangers = new Map<string, Socket>();

  constructor(max: number) {
    this.#max = max;
  }

  add(socket: Socket): void {
    const peer = peerOf(socket);
    this.#all.add(socket);
    this.#strangers.set(peer, socket);
    socket.once("close", () => {
      this.#all.delete(socket);
      if (this.#strangers.get(peer) === socket) this.#strangers.delete(peer);
    });
    if (this.#all.size > this.#max) this.#makeRoom(socket);
  }

  /** From now on, no other connection replaces it. */
  loggedIn(socket: Socket): void {
    this.#strangers.delete(peerOf(socket));
  }

  #makeRoom(newcomer: Socket): void {
    for (const socket of this.#strangers.values()) {
      if (socket === newcomer || socket.destroyed) continue;
      socket.destroy();
      return;
    }
    newcomer.destroy();
  }
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
