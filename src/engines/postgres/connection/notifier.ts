import { randomUUID } from "node:crypto";
import type { Hint } from "../../../engine/engine.ts";
import type { Connection } from "./connection.ts";

/**
 * Sends NOTIFY messages about commits to other processes, and receives theirs. The engine has one, on its own
 * connection.
 */

/** What one process tells the others of its commits. */
interface Message {
  from: string;
  ready?: Record<string, number>;
  ended?: true;
  /** Notices wait for sessions; whose, their own process finds out. */
  noticed?: true;
  foreign?: true;
}

/**
 * A process sends at most one message in this time: a commit that notifies takes a lock of the whole server, and every process hears
 * every message (docs/decisions/0024).
 */
const GAP_MS = 5;
/** NOTIFY takes less than 8,000 bytes. */
const LONGEST = 7_000;
const RETRY_MS = [50, 200, 500, 1_000, 2_000];

/** Of a commit, beside its hint. */
export interface CommitEffects {
  noticed: boolean;
  listened: boolean;
  ended: boolean;
}

export interface HeraldOptions {
  connect: () => Promise<Connection>;
  /** False: it only tells, and what others tell is found by the slow poll. */
  listen: boolean;
  onHint: (hint: Hint, noticed: boolean) => void;
}

/**
 * Tells other processes what commits made possible, and hears what they tell. A hint only: the messages of a moment
 * become one, sent beside the commits; what is lost with a connection or a process the slow poll finds.
 */
export class Notifier {
  readonly #options: HeraldOptions;
  readonly #id = randomUUID();
  #link: Connection | undefined;
  #pending: Message | undefined;
  #sentAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #failures = 0;
  #closed = false;
  #connecting: Promise<void> | undefined;

  constructor(options: HeraldOptions) {
    this.#options = options;
  }

  /** Resolves when it listens; later it reconnects by itself. */
  async start(): Promise<void> {
    await this.#connect();
  }

  /**
   * The message that a commit which makes tasks ready sends itself: who waits for them hears of it with the commit, and not a round
   * trip later. Such a commit holds the server's lock while it is flushed. Undefined where messages are frequent: `tell` sends it.
   */
  messageFor(hint: Hint, told: CommitEffects): string | undefined {
    const now = performance.now();
    if (!hint.ready || this.#pending || now < this.#sentAt + GAP_MS) return undefined;
    const message: Message = { from: this.#id };
    put(message, hint, told);
    this.#sentAt = now;
    return this.#textOf(message);
  }

  tell(hint: Hint, told: CommitEffects): void {
    const { noticed, listened, ended } = told;
    if (!hint.ready && !hint.ended && !hint.runs && !ended && !noticed && !listened) return;
    put((this.#pending ??= { from: this.#id }), hint, told);
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
    return text.length < LONGEST ? text : JSON.stringify({ from: this.#id, foreign: true, noticed: true });
  }

  #hear(payload: string): void {
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

  /** A standby lets everybody in and refuses this: what is not used any more must not stay open. */
  async #listen(link: Connection): Promise<void> {
    link.onNotification((payload) => this.#hear(payload));
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
        // Nobody knows what was told meanwhile.
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

/** Of somebody else's word on our channel nobody knows what it means: look at everything. */
function messageFrom(payload: string): Message {
  try {
    const message = JSON.parse(payload) as Partial<Message> | null;
    if (typeof message?.from === "string") return message as Message;
  } catch {
    // Not even JSON.
  }
  return { from: "", foreign: true, noticed: true };
}

function put(message: Message, hint: Hint, { noticed, listened, ended }: CommitEffects): void {
  for (const [queue, count] of Object.entries(hint.ready ?? {})) {
    const ready = (message.ready ??= Object.create(null) as Record<string, number>);
    ready[queue] = (ready[queue] ?? 0) + count;
  }
  // Whoever waits for the end of a run looks then, too.
  if (hint.ended || hint.runs || ended) message.ended = true;
  if (noticed) message.noticed = true;
  if (listened) message.foreign = true;
}

// Nobody waits for it to reach the disk: after a crash there is nobody to be told.
const NOTIFY = `SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)`;

export function channelOf(schema: string): string {
  return `dibs_${schema}`;
}
