import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { AnswerBudget } from "../../core/answer/answer-budget.ts";
import { type Clock, startTimer } from "../../core/time/clock.ts";
import type { ErrorData } from "../../core/errors/errors.ts";
import type { Logger } from "../../core/process/logger.ts";
import type { Port } from "../../core/port.ts";
import { show } from "../../core/errors/show.ts";
import { decode, encode } from "../../protocol/codec.ts";
import { CLOSE, type Hello, type Refusal, VERSION, type Welcome } from "../../protocol/messages.ts";
import { closeFailed } from "./close-failed.ts";
import { Session } from "./session.ts";

// The native protocol's server side: admits clients, and creates or resumes their sessions. The server creates it.

export interface NativeOptions {
  clock: Clock;
  logger: Logger;
  /** How often each side checks that it has heard from the other. Three silent intervals end a connection. */
  beatMs?: number;
  /** How long a lost connection can be resumed. */
  resumeMs?: number;
  /** Most bytes of one message from a client. */
  maxFrame?: number;
  /** Most characters that a client may leave unread. */
  maxBacklog?: number;
  /** Milliseconds from the connection to the hello. */
  helloMs?: number;
  /** A client that does not answer the close frame within this many milliseconds is cut off. */
  farewellMs?: number;
  /** The memory budget of answers in progress. Unless it is shared with another door, the door has its own. */
  budget?: AnswerBudget;
}

/** An admitted client: its restricted port. */
export interface Admitted {
  port: Port;
  owner: string;
  /** Proves, after a restart of the server, that a worker's session belongs to this client. */
  ticketOf: (session: number) => string;
}

export const NATIVE_DEFAULTS = {
  beatMs: 5_000,
  resumeMs: 3_000,
  maxFrame: 32 * 1024 * 1024,
  maxBacklog: 64 * 1024 * 1024,
  helloMs: 5_000,
  farewellMs: 1_000,
};

/** Bytes waiting to be written to a client, above which its pings are not answered. */
const MOST_PONGS = 64 * 1024;

/** What is read of a hello. The versions are as the client sent them. */
interface Greeting {
  versions: unknown[];
  resume?: { session: string; received: number };
}

/** The native protocol: one WebSocket per client. */
export class NativeDoor {
  readonly #options: Required<Omit<NativeOptions, "budget">>;
  readonly #budget: AnswerBudget;
  readonly #server: WebSocketServer;
  readonly #sessions = new Map<string, Session>();
  #isDraining = false;
  /** Checks whether the drain still has to wait. */
  #checkDrained: () => void = () => {};
  #stopBeating: () => void = () => {};

  constructor(options: NativeOptions) {
    this.#options = { ...NATIVE_DEFAULTS, ...options };
    this.#budget = options.budget ?? new AnswerBudget();
    this.#server = new WebSocketServer({
      noServer: true,
      perMessageDeflate: false,
      maxPayload: this.#options.maxFrame,
      autoPong: false,
      // Not in the types yet; the default is 30 s.
      ...({ closeTimeout: this.#options.farewellMs } as object),
    });
    this.#beat();
  }

  /** Clients that are connected, or can still resume. */
  get clients(): number {
    return this.#sessions.size;
  }

  /** Takes over a connection whose client was admitted. */
  accept(request: IncomingMessage, socket: Duplex, head: Buffer, admitted: Admitted): void {
    this.#server.handleUpgrade(request, socket, head, (websocket) => this.#greet(websocket, admitted));
  }

  /**
   * Gives no more tasks to clients. Resolves when no client holds a claim, or after `ms`, when the remaining claims are
   * released.
   */
  async drain(ms: number): Promise<void> {
    this.#isDraining = true;
    for (const session of this.#sessions.values()) session.calls.drain();
    await new Promise<void>((resolve) => {
      const stopTimer = this.#options.clock.after(ms, resolve);
      this.#checkDrained = () => {
        // Includes clients that connected meanwhile, and excludes those that are gone. Runs after every answer, so it
        // copies nothing.
        for (const { calls } of this.#sessions.values()) if (calls.isBusy) return;
        stopTimer();
        resolve();
      };
      this.#checkDrained();
    });
    await Promise.all([...this.#sessions.values()].map((session) => session.release()));
  }

  /** Ends the sessions of owners that may no longer connect. */
  dismiss(isDismissed: (owner: string) => boolean): void {
    for (const session of this.#sessions.values()) if (isDismissed(session.owner)) session.end();
  }

  close(): void {
    this.#stopBeating();
    for (const session of this.#sessions.values()) session.close();
    this.#sessions.clear();
    this.#server.close();
    startTimer(this.#options.farewellMs, () => {
      for (const socket of this.#server.clients) socket.terminate();
    });
  }

  #beat(): void {
    this.#stopBeating = this.#options.clock.after(this.#options.beatMs, () => {
      for (const session of this.#sessions.values()) session.beat();
      this.#beat();
    });
  }

  #greet(socket: WebSocket, admitted: Admitted): void {
    socket.on("error", () => socket.terminate());
    // A client that sends pings and reads no answers must not fill the memory with pongs.
    socket.on("ping", (data) => socket.bufferedAmount < MOST_PONGS && socket.pong(data));
    const stopTimer = startTimer(this.#options.helloMs, () => socket.close(CLOSE.protocol, "no hello"));
    socket.once("close", stopTimer);
    socket.once("message", (data) => {
      stopTimer();
      try {
        this.#meet(socket, (data as Buffer).toString(), admitted);
      } catch (error) {
        closeFailed(socket, error, this.#options.logger);
      }
    });
  }

  #meet(socket: WebSocket, text: string, admitted: Admitted): void {
    const hello = readHello(text);
    if (!hello) return socket.close(CLOSE.protocol, "no hello of this protocol");
    if (!hello.versions.includes(VERSION)) return refuse(socket, otherVersion(hello.versions));
    this.#welcome(socket, hello, admitted);
  }

  #welcome(socket: WebSocket, { resume }: Greeting, admitted: Admitted): void {
    const known = resume && this.#sessions.get(resume.session);
    const resumed = known?.owner === admitted.owner ? known : undefined;
    const session = resumed ?? this.#open(admitted);
    const { beatMs, resumeMs, maxFrame } = this.#options;
    const welcome: Welcome = {
      welcome: {
        version: VERSION,
        server: "dibs",
        session: session.id,
        ...(resumed && { resumed: { received: resumed.received } }),
        ...{ beatMs, resumeMs, maxFrame },
      },
    };
    socket.send(encode(welcome));
    session.attach(socket, resumed ? resume!.received : 0);
  }

  #open({ port, owner, ticketOf }: Admitted): Session {
    const { clock, logger, resumeMs, maxBacklog } = this.#options;
    const onEnd = (ended: Session): void => {
      this.#sessions.delete(ended.id);
      this.#checkDrained();
    };
    const room = this.#budget.client();
    const session = new Session({ port, owner, ticketOf, clock, logger, resumeMs, maxBacklog, room, onEnd });
    session.calls.onSettled(() => this.#checkDrained());
    if (this.#isDraining) session.calls.drain();
    this.#sessions.set(session.id, session);
    return session;
  }
}

function readHello(text: string): Greeting | undefined {
  try {
    const { hello } = decode(text) as Partial<Hello>;
    const { versions, resume } = hello ?? {};
    if (!Array.isArray(versions)) return undefined;
    const isResume = typeof resume?.session === "string" && Number.isSafeInteger(resume.received);
    return { versions, ...(isResume && { resume }) };
  } catch {
    return undefined;
  }
}

function refuse(socket: WebSocket, refused: ErrorData): void {
  const refusal: Refusal = { refused };
  socket.send(encode(refusal));
  socket.close(CLOSE.protocol, "refused");
}

function otherVersion(versions: unknown[]): ErrorData {
  const spoken = versions.slice(0, 10).map(show).join(", ");
  return {
    code: "UNSUPPORTED",
    message: `This server supports version ${VERSION} of the protocol, and the client ${spoken}. Use the same version of dibs for both.`,
  };
}
