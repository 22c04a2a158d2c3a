import type { Duplex } from "node:stream";
import { Client, type QueryConfig, type QueryResult, types } from "pg";
import { notConnected } from "./failure.ts";
import { inSchema } from "../statements/text.ts";

export type Value =
  | string
  | number
  | boolean
  | null
  | Uint8Array
  | readonly (string | number | boolean | null | Uint8Array)[];

export interface ConnectionOptions {
  url: string;
  schema: string;
  /** False behind a transaction pooler: then nothing may be kept on a connection from one transaction to the next. */
  prepare: boolean;
  /** Settings for the whole connection, where it is ours. */
  settings: Record<string, string>;
  connectMs: number;
}

/**
 * Each statement sees what was committed before it, also where an administrator has chosen otherwise for all others: what a
 * transaction waited for, it has to see.
 */
export const BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED";

const FAREWELL_MS = 2_000;

const INT8 = 20;
const TYPES = { getTypeParser };

/** 64-bit numbers come as numbers: none that is given out here reaches 2^53. */
function getTypeParser(oid: number, format?: "text" | "binary"): (value: string) => unknown {
  return oid === INT8 ? Number : types.getTypeParser(oid, format);
}

/** Statements are prepared once a connection, under a name of their own. */
const NAMES = new Map<string, string>();

function nameOf(sql: string): string {
  let name = NAMES.get(sql);
  if (name === undefined) {
    name = `dibs_${NAMES.size}`;
    NAMES.set(sql, name);
  }
  return name;
}

async function connect(client: Client): Promise<void> {
  try {
    await client.connect();
  } catch (error) {
    throw notConnected(error);
  }
}

/** What pg's client has, and its types do not know. */
interface Inner {
  ref(): void;
  unref(): void;
  processID: number;
  connection: { stream: Duplex };
}

/** One connection. What is sent goes out at once and is answered in order, so that a batch needs few round trips. */
export class Connection {
  readonly schema: string;
  readonly #client: Client;
  readonly #prepare: boolean;
  readonly #texts = new Map<string, string>();
  #pid: number | undefined;
  #asked = 0;
  #heardAt = 0;
  #collecting = false;
  #closing = false;
  #ended: Error | undefined;
  readonly #onEnd: ((error: Error) => void)[] = [];

  private constructor(client: Client, { schema, prepare }: ConnectionOptions) {
    this.#client = client;
    this.schema = schema;
    this.#prepare = prepare;
    client.on("error", (error) => this.#end(error));
    client.on("end", () => this.#end(new Error("Connection terminated")));
  }

  static async open(options: ConnectionOptions): Promise<Connection> {
    const client = new Client({
      connectionString: options.url,
      connectionTimeoutMillis: options.connectMs,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
      application_name: "dibs",
      types: TYPES,
      pipeline: true,
    });
    const link = new Connection(client, options);
    try {
      await connect(client);
      await link.#introduce(Object.entries(options.settings));
      link.#unref();
      return link;
    } catch (error) {
      link.destroy();
      throw error;
    }
  }

  /** Says what holds for the whole connection, where it is ours, and asks by what the server knows it. */
  async #introduce(settings: [name: string, value: string][]): Promise<void> {
    if (settings.length === 0) return;
    const calls = settings.map((_, i) => `set_config($${i * 2 + 1}, $${i * 2 + 2}, false)`);
    const [row] = await this.all<{ pid: number }>(
      `SELECT pg_backend_pid() AS pid, ${calls.join(", ")}`,
      ...settings.flat(),
    );
    this.#pid = row!.pid;
  }

  /** Why it is of no use any more; undefined while it is. */
  get ended(): Error | undefined {
    return this.#ended;
  }

  /** Milliseconds for which an answer has been waited for and none has come. */
  get silentFor(): number {
    return this.#asked === 0 ? 0 : performance.now() - this.#heardAt;
  }

  /** Of the server's process; undefined where it may be another one with each transaction. */
  get pid(): number | undefined {
    return this.#pid;
  }

  /** Nobody stands between who would tell another number than the server's. */
  get isDirect(): boolean {
    return this.#inner.processID === this.pid;
  }

  onEnd(listener: (error: Error) => void): void {
    this.#onEnd.push(listener);
    if (this.#ended) listener(this.#ended);
  }

  onNotification(listener: (payload: string) => void): void {
    this.#client.on("notification", ({ payload }) => listener(payload ?? ""));
  }

  #end(error: Error): void {
    if (this.#ended) return;
    this.#ended = error;
    for (const listener of this.#onEnd) listener(error);
  }

  /** Every statement this connection has used, for whoever checks their plans. */
  get statements(): Iterable<string> {
    return this.#texts.keys();
  }

  #text(sql: string): string {
    let text = this.#texts.get(sql);
    if (text === undefined) {
      text = inSchema(sql, this.schema);
      this.#texts.set(sql, text);
    }
    return text;
  }

  /** Statements without values or rows. */
  async exec(sql: string): Promise<void> {
    await this.#ask({ text: inSchema(sql, this.schema) });
  }

  query(sql: string, values: readonly Value[]): Promise<QueryResult> {
    const text = this.#text(sql);
    return this.#ask({
      text,
      values: values as unknown[],
      ...(this.#prepare && { name: nameOf(text) }),
    });
  }

  /** Rows as arrays, which are read faster than objects. */
  async rows(sql: string, values: readonly Value[]): Promise<unknown[][]> {
    const text = this.#text(sql);
    const name = this.#prepare ? { name: nameOf(text) } : {};
    const { rows } = await this.#ask({ text, values: values as unknown[], rowMode: "array", ...name });
    return rows as unknown[][];
  }

  #ask(query: QueryConfig & { rowMode?: "array" }): Promise<QueryResult> {
    return this.#during(() => this.#client.query(query));
  }

  /** It keeps the process alive only while it has something to answer. */
  async #during<T>(ask: () => Promise<T>): Promise<T> {
    if (this.#asked++ === 0) {
      this.#heardAt = performance.now();
      this.#ref();
    }
    this.#collect();
    try {
      return await ask();
    } finally {
      this.#heardAt = performance.now();
      if (--this.#asked === 0 && !this.#closing) this.#unref();
    }
  }

  /** The statements of a moment go out in one write: each is a call of the system's, and wakes the server's process. */
  #collect(): void {
    if (this.#collecting) return;
    this.#collecting = true;
    this.#inner.connection.stream.cork();
    process.nextTick(() => this.flush());
  }

  /** They go out now: what follows in this moment may take long to be written down. */
  flush(): void {
    this.#collecting = false;
    this.#inner.connection.stream.uncork();
  }

  async all<Row>(sql: string, ...values: Value[]): Promise<Row[]> {
    return (await this.query(sql, values)).rows as Row[];
  }

  get #inner(): Inner {
    return this.#client as unknown as Inner;
  }

  #ref(): void {
    this.#inner.ref();
  }

  #unref(): void {
    this.#inner.unref();
  }

  async close(): Promise<void> {
    this.#end(new Error("The connection was closed."));
    this.#closing = true;
    this.#ref();
    // The server's word of farewell does not come from where nothing comes from.
    const timer = setTimeout(() => this.#hangUp(), FAREWELL_MS);
    await this.#client.end().catch(() => {});
    clearTimeout(timer);
  }

  /** At once, whatever is under way. */
  destroy(): void {
    this.#end(new Error("The connection was given up."));
    this.#hangUp();
  }

  #hangUp(): void {
    this.#inner.connection.stream.destroy();
  }
}
