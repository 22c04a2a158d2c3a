import { randomUUID } from "node:crypto";
import type { Hint } from "../../../engine/hint.ts";
import type { Connection } from "./connection.ts";

/** A message about one commit, or about several. The fields are those of `Hint`, except `from` and `noticed`. */
interface Message {
  /** The id of the sending process; empty if a caller's transaction sent it. */
  from: string;
  ready?: Record<string, number>;
  ended?: true;
  /** Notices were written for sessions. Each process then checks its own sessions. */
  noticed?: true;
  foreign?: true;
}

/**
 * A process sends at most one message per 5 ms: a commit that notifies takes a lock of the whole server, and every process
 * gets every message (docs/decisions/0024).
 */
const GAP_MS = 5;
/** PostgreSQL refuses messages of 8,000 bytes. */
const MAX_CHARACTERS = 7_000;
const RETRY_MS = [50, 200, 500, 1_000, 2_000];

/** What other processes need to know about a commit besides its hint. */
export interface CommitEffects {
  /** Notices were written for sessions. */
  hasNotices: boolean;
  /** A process listens to events. */
  hasListeners: boolean;
  /** Claims were settled: a caller may wait for their results. */
  ended: boolean;
}

export interface NotifierOptions {
  connect: () => Promise<Connection>;
  /** False: it only sends, and the slow poll finds what other processes did. */
  listen: boolean;
  onHint: (hint: Hint, hasNotices: boolean) => void;
}

/**
 * Sends NOTIFY messages about commits to other processes, and receives theirs. The engine has one, on its own
 * connection. Messages are hints: if one is lost with a connection or a process, the slow poll finds what it was about.
 */
export class Notifier {
  readonly #options: NotifierOptions;
  readonly #id = randomUUID();
  #link: Connection | undefined;
  #pending: Message | undefined;
  #sentAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #failures = 0;
  #closed = false;
  #connecting: Promise<void> | undefined;

  constructor(options: NotifierOptions) {
    this.#options = options;
  }

  /** Resolves when it is connected. If the connection is lost later, it reconnects by itself. */
  async start(): Promise<void> {
    await this.#connect();
  }

  /**
   * The message of a commit that makes tasks ready, for the transaction to send before its commit: waiting workers get it
   * a round trip sooner than from `notify`. But such a commit holds a lock of the whole server until it is on disk. So if
   * the last message was sent less than 5 ms ago, this returns undefined, and the caller calls `notify` after the commit.
   */
  messageFor(hint: Hint, effects: CommitEffects): string | undefined {
    const now = performance.now();
    if (!hint.ready || this.#pending || now < this.#sentAt + GAP_MS) return undefined;
    const message: Message = { from: this.#id };
    put(message, hint, effects);
    this.#sentAt = now;
    return this.#textOf(message);
  }

  /** Sends a message about a commit, at the latest 5 ms after the last message. */
  notify(hint: Hint, effects: CommitEffects): void {
    const { hasNotices, hasListeners, ended } = effects;
    if (!hint.ready && !hint.ended && !hint.runs && !ended && !hasNotices && !hasListeners) return;
    put((this.#pending ??= { from: this.#id }), hint, effects);
    const wait = this.#sentAt + GAP_MS - performance.now();
    if (wait <= 0) this.#send();
    else this.#timer ??= setTimeout(() => this.#send(), wait).unref();
  }

  #send(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const message = this.#pending;
    if (!message || !this.#link || this.#link.ended) return;
    this.#pending = undefined;
    this.#sentAt = performance.now();
    this.#link.query(NOTIFY, [channelOf(this.#link.schema), this.#textOf(message)]).catch(() => {});
  }

  #textOf(message: Message): string {
    const text = JSON.stringify(message);
    if (text.length < MAX_CHARACTERS) return text;
    // Without details: every process checks everything.
    return JSON.stringify({ from: this.#id, foreign: true, noticed: true });
  }

  #receive(payload: string): void {
    const message = messageFrom(payload);
    if (message.from === this.#id) return;
    const { ready, ended, foreign, noticed } = message;
    const hint: Hint = { ...(ready && { ready }), ...(ended && { ended }), ...(foreign && { foreign }) };
    this.#options.onHint(hint, noticed === true);
  }

  #connect(): Promise<void> {
    this.#connecting ??= this.#open().finally(() => (this.#connecting = undefined));
    return this.#connecting;
  }

  async #open(): Promise<void> {
    const link = await this.#options.connect();
    if (this.#options.listen) await this.#listen(link);
    this.#link = link;
    this.#failures = 0;
    if (this.#closed) return link.close();
    link.onEnd(() => this.#reconnect());
    this.#send();
  }

  /** Closes the connection if LISTEN fails: a standby accepts connections, and refuses LISTEN. */
  async #listen(link: Connection): Promise<void> {
    link.onNotification((payload) => this.#receive(payload));
    try {
      await link.exec(`LISTEN ${channelOf(link.schema)}`);
    } catch (error) {
      link.destroy();
      throw error;
    }
  }

  #reconnect(): void {
    if (this.#closed) return;
    const wait = RETRY_MS[Math.min(this.#failures++, RETRY_MS.length - 1)]!;
    setTimeout(() => {
      if (this.#closed) return;
      this.#connect().then(
        // Messages may have been missed meanwhile.
        () => this.#options.onHint({ foreign: true }, true),
        () => this.#reconnect(),
      );
    }, wait).unref();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#send();
    clearTimeout(this.#timer);
    await this.#connecting?.catch(() => {});
    await this.#link?.close();
  }
}

/** If another program sent the text, it may mean anything: then this process checks everything. */
function messageFrom(payload: string): Message {
  try {
    const message = JSON.parse(payload) as Partial<Message> | null;
    if (typeof message?.from === "string") return message as Message;
  } catch {
    // Not even JSON.
  }
  return { from: "", foreign: true, noticed: true };
}

function put(message: Message, hint: Hint, { hasNotices, hasListeners, ended }: CommitEffects): void {
  for (const [queue, count] of Object.entries(hint.ready ?? {})) {
    const ready = (message.ready ??= Object.create(null) as Record<string, number>);
    ready[queue] = (ready[queue] ?? 0) + count;
  }
  // `ended` also makes the callers check that wait for the end of a run.
  if (hint.ended || hint.runs || ended) message.ended = true;
  if (hasNotices) message.noticed = true;
  if (hasListeners) message.foreign = true;
}

// The commit needs no flush to disk: a crash of the server ends all listeners anyway.
const NOTIFY = `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)`;

export function channelOf(schema: string): string {
  return `dibs_${schema}`;
}
