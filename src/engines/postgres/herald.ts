import { randomUUID } from "node:crypto";
import type { Hint } from "../../engine/engine.ts";
import type { Link } from "./link.ts";

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
 * A commit that notifies takes a lock of the whole server's. A message that follows another closely has to wait, longer
 * each time; one that comes by itself goes out at once.
 */
const CLOSELY_MS = 4;
const LONGEST_GAP_MS = 10;
/** So many words of others within so long are loud: then nobody's commit holds the lock while it is flushed. */
const LOUD = 3;
const LATELY_MS = 50;
/**
 * Every word goes to all processes: 32 that told of each add had the server deliver fifteen words for one task, which took as
 * much as adding it. Where so many words are said, what others have just said, too, is said more and more seldom. Each of these
 * makes workers look, so that nobody waits for long; what nobody has spoken of is said as if it were quiet.
 */
const CROWD = 10;
const LONGEST_IN_CROWD_MS = 100;
/** Queues of which it is remembered when others spoke of them. */
const MOST_SPOKEN_OF = 1_000;
/** NOTIFY takes less than 8,000 bytes. */
const LONGEST = 7_000;
const RETRY_MS = [50, 200, 500, 1_000, 2_000];

/** Of a commit, beside its hint. */
export interface Told {
  noticed: boolean;
  listened: boolean;
  ended: boolean;
}

export interface HeraldOptions {
  connect: () => Promise<Link>;
  /** False: it only tells, and what others tell is found by the slow poll. */
  listen: boolean;
  onHint: (hint: Hint, noticed: boolean) => void;
}

/**
 * Tells other processes what commits made possible, and hears what they tell. A hint only: the messages of a moment
 * become one, sent beside the commits; what is lost with a connection or a process the slow poll finds.
 */
export class Herald {
  readonly #options: HeraldOptions;
  readonly #id = randomUUID();
  #link: Link | undefined;
  #pending: Message | undefined;
  #sentAt = Number.NEGATIVE_INFINITY;
  #gap = 0;
  /** The gap for what others say, too. */
  #gapInCrowd = 0;
  /** When others last spoke of each queue, and of ends. */
  readonly #spokenOf = new Map<string, number>();
  #voices = 0;
  #heardAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #dueAt = 0;
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
   * What a commit that makes tasks ready can tell by itself, so that whoever waits for them hears of it with the commit
   * and not a round trip later. Such a commit holds the server's lock while it is flushed: only where few do so.
   */
  wordFor(hint: Hint, told: Told): string | undefined {
    const now = performance.now();
    const isQuiet = this.#gap === 0 && now - this.#sentAt >= CLOSELY_MS && this.#din(now) < LOUD;
    if (!hint.ready || this.#pending || !isQuiet) return undefined;
    const message: Message = { from: this.#id };
    put(message, hint, told);
    this.#sentAt = now;
    return this.#textOf(message);
  }

  /** How many words of others spoke of ready tasks lately: each counts for less as time goes by. */
  #din(now: number): number {
    return this.#voices * Math.exp((this.#heardAt - now) / LATELY_MS);
  }

  tell(hint: Hint, told: Told): void {
    const { noticed, listened, ended } = told;
    if (!hint.ready && !hint.ended && !hint.runs && !ended && !noticed && !listened) return;
    put((this.#pending ??= { from: this.#id }), hint, told);
    const now = performance.now();
    const gap = this.#isNews(this.#pending, now) ? this.#gap : Math.max(this.#gap, this.#gapInCrowd);
    this.#sendAt(this.#sentAt + gap, now);
  }

  /** Nobody else has spoken of some of it lately. */
  #isNews(message: Message, now: number): boolean {
    const isOld = (topic: string): boolean => (this.#spokenOf.get(topic) ?? 0) > now - LATELY_MS;
    return message.noticed || message.foreign || !topicsOf(message).every(isOld);
  }

  /** Then, or when it was to be sent before, if that is sooner. */
  #sendAt(at: number, now: number): void {
    if (at <= now) return this.#send();
    if (this.#timer && this.#dueAt <= at) return;
    clearTimeout(this.#timer);
    this.#dueAt = at;
    this.#timer = setTimeout(() => this.#send(), at - now).unref();
  }

  #send(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const message = this.#pending;
    if (!message || !this.#link || this.#link.ended) return;
    this.#pending = undefined;
    const now = performance.now();
    const isClose = now - this.#sentAt < this.#gap + CLOSELY_MS;
    this.#gap = isClose ? Math.min(Math.max(this.#gap * 2, 1), LONGEST_GAP_MS) : 0;
    this.#gapInCrowd =
      this.#din(now) > CROWD
        ? Math.min(Math.max(this.#gapInCrowd * 2, LONGEST_GAP_MS), LONGEST_IN_CROWD_MS)
        : this.#gapInCrowd / 2;
    this.#sentAt = now;
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
    const now = performance.now();
    if (ready) {
      this.#voices = this.#din(now) + 1;
      this.#heardAt = now;
    }
    if (this.#spokenOf.size > MOST_SPOKEN_OF) this.#spokenOf.clear();
    for (const topic of topicsOf(message)) this.#spokenOf.set(topic, now);
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
  async #listen(link: Link): Promise<void> {
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

/** No queue is called by the name that ends have. */
function topicsOf({ ready, ended }: Message): string[] {
  return [...Object.keys(ready ?? {}), ...(ended ? [""] : [])];
}

function put(message: Message, hint: Hint, { noticed, listened, ended }: Told): void {
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
