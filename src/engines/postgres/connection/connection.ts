import type { Duplex } from "node:stream";
import { Client, type QueryConfig, type QueryResult, types } from "pg";
import { notConnected } from "./failure.ts";
import type { PasswordSource } from "./password.ts";
import { copyConfig, type PoolConfig } from "./pool.ts";
import { inSchema } from "../statements/text.ts";

/** One connection to the server, over `pg`. Everything that talks to PostgreSQL uses it. */

export type Value =
  | string
  | number
  | boolean
  | null
  | Uint8Array
  | readonly (string | number | boolean | null | Uint8Array)[];

export interface ConnectionOptions {
  /** With `pool` it is for messages only. */
  url: string;
  /** How a pool of the user connects. */
  pool?: PoolConfig;
  /** Asked at every connect, instead of the password of the address. */
  password?: PasswordSource | undefined;
  schema: string;
  /** False behind a transaction pooler: a connection then keeps nothing between transactions. */
  prepare: boolean;
  /** Settings for the whole connection; empty behind a transaction pooler. */
  settings: Record<string, string>;
  connectMs: number;
}

/**
 * Each statement sees what was committed before it, even if an administrator has set another default: after a transaction
 * has waited for a lock, it must see what the other one wrote.
 */
export const BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED";

const CLOSE_MS = 2_000;

const INT8 = 20;
const TYPES = { getTypeParser };

/** 64-bit integers become numbers: none in the store reaches 2^53. */
function getTypeParser(oid: number, format?: "text" | "binary"): (value: string) => unknown {
  return oid === INT8 ? Number : types.getTypeParser(oid, format);
}

/** The names under which statements are prepared, once per connection. */
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

/** Members of pg's client that its types do not declare. */
interface Inner {
  ref(): void;
  unref(): void;
  processID: number;
  connection: { stream: Duplex };
  password: () => Promise<string>;
}

/**
 * One connection. Statements are pipelined: sent without waiting for the answers before, and answered in order, so that a
 * batch needs few round trips.
 */
export class Connection {
  readonly schema: string;
  readonly #client: Client;
  readonly #prepare: boolean;
  readonly #texts = new Map<string, string>();
  #pid: number | undefined;
  #pending = 0;
  #answeredAt = 0;
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
    const { url, pool, password } = options;
    const client = new Client({
      application_name: "dibs",
      ...(pool ? copyConfig(pool) : { connectionString: url }),
      connectionTimeoutMillis: options.connectMs,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
      types: TYPES,
      pipeline: true,
    });
    const link = new Connection(client, options);
    if (password) link.#inner.password = () => password.get();
    try {
      await connect(client);
      await link.#applySettings(Object.entries(options.settings));
      link.#unref();
      return link;
    } catch (error) {
      link.destroy();
      throw error;
    }
  }

  /** Applies the settings, and reads the id of the server process. */
  async #applySettings(settings: [name: string, value: string][]): Promise<void> {
    if (settings.length === 0) return;
    const calls = settings.map((_, i) => `set_config($${i * 2 + 1}, $${i * 2 + 2}, false)`);
    const [row] = await this.all<{ pid: number }>(
      `SELECT pg_backend_pid() AS pid, ${calls.join(", ")}`,
      ...settings.flat(),
    );
    this.#pid = row!.pid;
  }

  /** Why it cannot be used any more; undefined while it can. */
  get ended(): Error | undefined {
    return this.#ended;
  }

  /** For how many milliseconds an answer has been overdue. */
  get silentFor(): number {
    return this.#pending === 0 ? 0 : performance.now() - this.#answeredAt;
  }

  /** The id of the server process; undefined behind a transaction pooler, where each transaction may have another one. */
  get pid(): number | undefined {
    return this.#pid;
  }

  /** No pooler is in between: a pooler reports another process id than the server. */
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

  /** Every statement that this connection has used: tests check their plans. */
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
    await this.#send({ text: inSchema(sql, this.schema) });
  }

  query(sql: string, values: readonly Value[]): Promise<QueryResult> {
    const text = this.#text(sql);
    return this.#send({
      text,
      values: values as unknown[],
      ...(this.#prepare && { name: nameOf(text) }),
    });
  }

  /** Rows as arrays, which `pg` parses faster than objects. */
  async rows(sql: string, values: readonly Value[]): Promise<unknown[][]> {
    const text = this.#text(sql);
    const name = this.#prepare ? { name: nameOf(text) } : {};
    const { rows } = await this.#send({ text, values: values as unknown[], rowMode: "array", ...name });
    return rows as unknown[][];
  }

  #send(query: QueryConfig & { rowMode?: "array" }): Promise<QueryResult> {
    return this.#during(() => this.#client.query(query));
  }

  /** The connection keeps the process alive only while an answer is pending. */
  async #during<T>(send: () => Promise<T>): Promise<T> {
    if (this.#pending++ === 0) {
      this.#answeredAt = performance.now();
      this.#ref();
    }
    this.#collect();
    try {
      return await send();
    } finally {
      this.#answeredAt = performance.now();
      if (--this.#pending === 0 && !this.#closing) this.#unref();
    }
  }

  /** The statements of one tick are sent in one write: each write is a system call, and wakes the server process. */
  #collect(): void {
    if (this.#collecting) return;
    this.#collecting = true;
    this.#inner.connection.stream.cork();
    process.nextTick(() => this.flush());
  }

  /** Sends them now: the statements that follow in this tick may take long to encode. */
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
    // If the network is down, the server's answer never arrives.
    const timer = setTimeout(() => this.#hangUp(), CLOSE_MS);
    await this.#client.end().catch(() => {});
    clearTimeout(timer);
  }

  /** At once, without waiting for answers. */
  destroy(): void {
    this.#end(new Error("The connection was given up."));
    this.#hangUp();
  }

  #hangUp(): void {
    this.#inner.connection.stream.destroy();
  }
}
