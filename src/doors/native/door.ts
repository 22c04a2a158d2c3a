import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { AnswerBudget } from "../../core/answer-budget.ts";
import { type Clock, startTimer } from "../../core/clock.ts";
import type { ErrorData } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type { Port } from "../../core/port.ts";
import { show } from "../../core/show.ts";
import { decode, encode } from "../../protocol/codec.ts";
import { CLOSE, type Hello, type Refusal, VERSION, type Welcome } from "../../protocol/messages.ts";
import { closeFailed } from "./close-failed.ts";
import { Session } from "./session.ts";

export interface NativeOptions {
  clock: Clock;
  logger: Logger;
  /** How often each side looks whether it has heard of the other; three beats of silence end a connection. */
  beatMs?: number;
  /** A lost connection has this long to resume. */
  resumeMs?: number;
  /** Bytes of one message from a client. */
  maxFrame?: number;
  /** Characters that a client may leave unread. */
  maxBacklog?: number;
  /** From the connection to the hello, in milliseconds. */
  helloMs?: number;
  /** A client that does not answer the close frame in this time is cut off, in milliseconds. */
  farewellMs?: number;
  /** What answers in progress may take of the memory; one of its own unless it is shared with another door. */
  budget?: AnswerBudget;
}

/** Who is let in: the port as far as it may use it. */
export interface Admitted {
  port: Port;
  owner: string;
  /** Proves, after a restart of the server, that a worker's session was this caller's. */
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

/** Bytes that wait to be written to a client, above which its pings are not answered. */
const MOST_PONGS = 64 * 1024;

/** What is read of a hello. The versions are as the client sent them. */
interface Greeting {
  versions: unknown[];
  resume?: { session: string; received: number };
}

/** The native protocol: one WebSocket a client. */
export class NativeDoor {
  readonly #options: Required<Omit<NativeOptions, "budget">>;
  readonly #budget: AnswerBudget;
  readonly #server: WebSocketServer;
  readonly #sessions = new Map<string, Session>();
  #isDraining = false;
  /** Looks whether there is still something to wait for. */
  #look: () => void = () => {};
  #stopBeating: () => void = () => {};

  constructor(options: NativeOptions) {
    this.#options = { ...NATIVE_DEFAULTS, ...options };
    this.#budget = options.budget ?? new AnswerBudget();
    this.#server = new WebSocketServer({
      noServer: true,
      perMessageDeflate: false,
      maxPayload: this.#options.maxFrame,
      autoPong: false,
      // The types do not know it yet; 30 s unless set.
      ...({ closeTimeout: this.#options.farewellMs } as object),
    });
    this.#beat();
  }

  /** Clients that are connected, or may yet resume. */
  get clients(): number {
    return this.#sessions.size;
  }

  /** Takes over a connection whose caller was admitted. */
  accept(request: IncomingMessage, socket: Duplex, head: Buffer, admitted: Admitted): void {
    this.#server.handleUpgrade(request, socket, head, (websocket) => this.#greet(websocket, admitted));
  }

  /** Hands out nothing more; resolves when nobody holds anything, or after `ms`, when what is left is released. */
  async drain(ms: number): Promise<void> {
    this.#isDraining = true;
    for (const session of this.#sessions.values()) session.calls.drain();
    await new Promise<void>((resolve) => {
      const stopTimer = this.#options.clock.after(ms, resolve);
      this.#look = () => {
        // Also those that came meanwhile, and not those that are gone. Asked with every answer: nothing is copied for it.
        for (const { calls } of this.#sessions.values()) if (calls.isBusy) return;
        stopTimer();
        resolve();
      };
      this.#look();
    });
    await Promise.all([...this.#sessions.values()].map((session) => session.release()));
  }

  /** Ends the sessions of those who are no longer welcome. */
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
    // Who asks and asks, and reads no answer, must not fill our memory with them.
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
      this.#look();
    };
    const room = this.#budget.client();
    const session = new Session({ port, owner, ticketOf, clock, logger, resumeMs, maxBacklog, room, onEnd });
    session.calls.onSettled(() => this.#look());
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
    message: `This server speaks version ${VERSION} of the protocol, the client ${spoken}. Bring both to one version of dibs.`,
  };
}
