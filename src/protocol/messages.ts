import type { ErrorData } from "../core/errors/errors.ts";
import type { DibsEvent } from "../core/event/events.ts";
import type { ClaimNotice } from "../core/task/claim-call.ts";

/**
 * The native protocol, over one WebSocket with text messages. The client sends hello, the server welcome; after that
 * both send frames. Version 1.
 */
export const VERSION = 1;

/** The path of the server's WebSocket endpoint. */
export const PATH = "/v1/connect";

export interface Hello {
  hello: {
    /** The versions that this client supports. */
    versions: number[];
    /** For people: a name and a version. */
    client: string;
    /** To resume the session of a lost connection: its id, and the last frame received. */
    resume?: { session: string; received: number };
  };
}

export interface Welcome {
  welcome: {
    version: number;
    /** For people. */
    server: string;
    /** Used to resume. Anyone who has it has the session. */
    session: string;
    /** The session was resumed, and this is the last frame that the server received. Absent: it is a new session. */
    resumed?: { received: number };
    /** How often each side checks that it has heard from the other, in milliseconds. */
    beatMs: number;
    /** How long a lost connection can be resumed. */
    resumeMs: number;
    /** The longest message that the server accepts, in bytes. */
    maxFrame: number;
  };
}

/** Sent instead of a welcome: the connection ends, and retrying does not help. */
export interface Refusal {
  refused: ErrorData;
}

/**
 * What both sides send. Frames with items are numbered from 1, and stored until the other side has acknowledged them,
 * so that a resumed connection loses and repeats nothing. A frame without items is a ping if it has a number (it must
 * be acknowledged at once), and an acknowledgement if it has none.
 */
export interface Frame {
  seq?: number;
  /** The last frame received from the other side. */
  ack: number;
  items?: unknown[];
}

export type ClientItem =
  /** A verb of the port. Calls take effect in the order in which they are sent. */
  | ["call", id: number, verb: string, args: unknown[]]
  /** The caller no longer waits for this answer. The server answers all the same. */
  | ["abort", id: number]
  /** Starts listening to the events; answered when that has begun. */
  | ["listen", id: number]
  /** Requests the next events of listener `id`; answered by `events`. */
  | ["next", id: number]
  | ["unlisten", id: number]
  /** The client closes. */
  | ["bye"];

export type ServerItem =
  | ["ok", id: number, value?: unknown]
  | ["error", id: number, error: ErrorData]
  | ["notice", session: number, notice: ClaimNotice]
  /** At least one event; null: there will be no more. */
  | ["events", id: number, events: DibsEvent[] | null];

/** Why a WebSocket was closed, in the range reserved for applications. */
export const CLOSE = {
  /** The server stops; another one may start soon. */
  goingAway: 1001,
  /** The server failed on a message, and its outcome is unknown. The server's log says why. */
  failed: 1011,
  /** Not this protocol. */
  protocol: 4400,
  /** Another connection has resumed this session. */
  replaced: 4409,
  /** The client did not read what it was sent. */
  slow: 4413,
  /** The client was silent. */
  silent: 4408,
} as const;
