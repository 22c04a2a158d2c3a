import type { ErrorData } from "../core/errors.ts";
import type { DibsEvent } from "../core/events.ts";
import type { ClaimNotice } from "../core/port.ts";

/**
 * The native protocol, over one WebSocket of text messages. The client says hello, the server welcome; from there on
 * both send frames. Version 1.
 */
export const VERSION = 1;

/** Where the server takes WebSockets. */
export const PATH = "/v1/connect";

export interface Hello {
  hello: {
    /** The versions this client speaks. */
    versions: number[];
    /** For people: a name and a version. */
    client: string;
    /** The session of a connection that was lost, to go on with it, and the last frame that came through it. */
    resume?: { session: string; received: number };
  };
}

export interface Welcome {
  welcome: {
    version: number;
    /** For people. */
    server: string;
    /** To resume by; whoever has it has the session. */
    session: string;
    /** The session goes on where it was, and this is the last frame that came through. Absent: it is a new one. */
    resumed?: { received: number };
    /** A beat: so often each side looks whether it has heard of the other, in milliseconds. */
    beatMs: number;
    /** A lost connection has this long to resume. */
    resumeMs: number;
    /** The longest message the server takes, in bytes. */
    maxFrame: number;
  };
}

/** In place of a welcome: the connection ends, and trying again does not help. */
export interface Refusal {
  refused: ErrorData;
}

/**
 * What both sides send. Frames with items are numbered from 1 and kept until the other side has acknowledged them, so
 * that a connection that is resumed has lost and doubled nothing. One without items is a ping if it has a number, to
 * be acknowledged at once, and an acknowledgement if it has none.
 */
export interface Frame {
  seq?: number;
  /** The last frame that came through from the other side. */
  ack: number;
  items?: unknown[];
}

export type ClientItem =
  /** A verb of the port. Calls take effect in the order they are sent. */
  | ["call", id: number, verb: string, args: unknown[]]
  /** Nobody waits for this answer any more. It is answered all the same. */
  | ["abort", id: number]
  /** Begins to follow the events; answered when it has begun. */
  | ["listen", id: number]
  /** Asks for the next events of listener `id`; answered by `events`. */
  | ["next", id: number]
  | ["unlisten", id: number]
  /** The client closes, and wants nothing more. */
  | ["bye"];

export type ServerItem =
  | ["ok", id: number, value?: unknown]
  | ["error", id: number, error: ErrorData]
  | ["notice", session: number, notice: ClaimNotice]
  /** At least one; null: there will be no more. */
  | ["events", id: number, events: DibsEvent[] | null];

/** Why a WebSocket was closed, in the range that applications may use. */
export const CLOSE = {
  /** The server stops; another one may be there soon. */
  goingAway: 1001,
  /** The server failed on a message, and does not know what became of it. Its log says why. */
  failed: 1011,
  /** Not this protocol. */
  protocol: 4400,
  /** Another connection has resumed this session. */
  replaced: 4409,
  /** It did not read what it was sent. */
  slow: 4413,
  /** Nothing was heard of it. */
  silent: 4408,
} as const;
