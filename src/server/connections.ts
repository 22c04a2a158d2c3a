import type { IncomingMessage } from "node:http";
import type { Server as NetServer, Socket } from "node:net";
import { startTimer } from "../core/time/clock.ts";

// The limit on TCP connections, and the reset of stalled ones. The server creates it for each address.

export interface ConnectionLimits {
  /** Most connections at once. */
  max: number;
  /** A connection whose pending bytes do not move for this long is reset; in milliseconds. */
  readMs: number;
  /** A connection that the server has ended is destroyed if its peer has not ended it by then; in milliseconds. */
  farewellMs: number;
}

interface Connection {
  socket: Socket;
  /** The TCP socket below a TLS socket; otherwise the same. */
  tcp: Socket;
  /** Requests that are being answered. An upgraded connection counts as one until it closes. */
  served: number;
  /** The progress of the pending bytes at the last check. */
  mark: string;
  stalledMs: number;
  endedMs: number;
}

const LONGEST_TICK_MS = 1_000;

/**
 * Every TCP connection of the server. This is the only place that frees their slots. Node's HTTP server keeps half-open
 * connections: `socket.end()` alone leaves a connection open for as long as its peer wants. Other code may only end a
 * connection; the sweep here destroys it if the peer does not answer, or does not read what is pending.
 *
 * At the limit, a new connection replaces the one that has been idle longest: first among those that never sent a
 * request, then among those between two requests, then among those whose body has not arrived. If all are being served,
 * the new one is refused.
 */
export class Connections {
  readonly #limits: ConnectionLimits;
  readonly #all = new Set<Connection>();
  readonly #bySocket = new WeakMap<Socket, Connection>();
  /** By remote address: finds the connection below a TLS socket. */
  readonly #byPeer = new Map<string, Connection>();
  /** Connections that never sent the headers of a request, the oldest first. */
  readonly #withoutRequest = new Set<Connection>();
  /** Connections between two requests, the longest idle first. */
  readonly #idle = new Set<Connection>();
  /** Connections that have sent the headers of a request and not its whole body, the oldest first. */
  readonly #receiving = new Set<Connection>();
  readonly #tickMs: number;
  #stopTimer: () => void = () => {};

  constructor(server: NetServer, limits: ConnectionLimits) {
    this.#limits = limits;
    this.#tickMs = Math.min(LONGEST_TICK_MS, Math.ceil(limits.readMs / 4), Math.ceil(limits.farewellMs / 4));
    server.on("connection", (socket: Socket) => this.#open(socket));
    server.on("secureConnection", (socket: Socket) => this.#secure(socket));
    this.#sweepLater();
  }

  get count(): number {
    return this.#all.size;
  }

  /** A request or an upgrade has arrived: the connection is not idle until the returned function is called. */
  serve(request: IncomingMessage): () => void {
    const connection = this.#bySocket.get(request.socket);
    if (!connection) return () => {};
    connection.served++;
    this.#withoutRequest.delete(connection);
    this.#idle.delete(connection);
    if (hasBody(request)) {
      this.#receiving.add(connection);
      request.once("end", () => this.#receiving.delete(connection));
    }
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#receiving.delete(connection);
      if (--connection.served === 0 && this.#all.has(connection)) this.#idle.add(connection);
    };
  }

  destroyAll(): void {
    for (const { socket } of this.#all) socket.destroy();
  }

  close(): void {
    this.#stopTimer();
  }

  #open(socket: Socket): void {
    const connection: Connection = { socket, tcp: socket, served: 0, mark: "", stalledMs: 0, endedMs: 0 };
    const peer = peerOf(socket);
    this.#all.add(connection);
    this.#bySocket.set(socket, connection);
    this.#byPeer.set(peer, connection);
    this.#withoutRequest.add(connection);
    socket.once("close", () => {
      this.#all.delete(connection);
      if (this.#byPeer.get(peer) === connection) this.#byPeer.delete(peer);
      this.#withoutRequest.delete(connection);
      this.#idle.delete(connection);
      this.#receiving.delete(connection);
    });
    if (this.#all.size > this.#limits.max) this.#makeRoom(socket);
  }

  /** From now on the TLS socket is read and written. The TCP socket below it closes with it. */
  #secure(socket: Socket): void {
    const connection = this.#byPeer.get(peerOf(socket));
    if (!connection) return;
    connection.socket = socket;
    this.#bySocket.set(socket, connection);
  }

  #makeRoom(newcomer: Socket): void {
    for (const { socket } of [this.#withoutRequest, this.#idle, this.#receiving].flatMap(first)) {
      if (socket === newcomer) continue;
      socket.destroy();
      return;
    }
    newcomer.destroy();
  }

  #sweepLater(): void {
    this.#stopTimer = startTimer(this.#tickMs, () => {
      for (const connection of this.#all) this.#check(connection);
      this.#sweepLater();
    });
  }

  /** Counts checks, not time: after a freeze of this process no peer has been slow. */
  #check(connection: Connection): void {
    const { socket } = connection;
    const isPending = socket.writableLength > 0;
    const mark = isPending ? markOf(socket) : "";
    connection.stalledMs = isPending && mark === connection.mark ? connection.stalledMs + this.#tickMs : 0;
    connection.mark = mark;
    connection.endedMs = socket.writableEnded && !isPending ? connection.endedMs + this.#tickMs : 0;
    if (connection.stalledMs >= this.#limits.readMs) cutOff(connection);
    else if (connection.endedMs >= this.#limits.farewellMs) socket.destroy();
  }
}

/**
 * With a reset: after an orderly end, the kernel would keep up to some megabytes for a peer that does not read, for
 * minutes, and the peer would not learn that it was cut off. Not after `end()`: the system allows no reset then.
 */
function cutOff({ socket, tcp }: Connection): void {
  if (!socket.writableEnded && !tcp.destroyed) tcp.resetAndDestroy();
  socket.destroy();
}

/** The first of a set, as a list: none if the set is empty. */
function first<T>(set: Set<T>): T[] {
  for (const item of set) return [item];
  return [];
}

function hasBody({ headers }: IncomingMessage): boolean {
  return Number(headers["content-length"] ?? 0) > 0 || headers["transfer-encoding"] !== undefined;
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/**
 * Changes when the kernel takes bytes. `bytesWritten` counts whole writes. During a long write only the handle knows
 * how much is left; Node's own socket timeout uses it too.
 */
function markOf(socket: Socket): string {
  const { _handle: handle } = socket as { _handle?: { writeQueueSize?: number } | null };
  return `${socket.bytesWritten - socket.writableLength} ${handle?.writeQueueSize}`;
}
