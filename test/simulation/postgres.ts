import { randomBytes } from "node:crypto";
import type { Reading } from "../../src/core/time/clock.ts";
import type { Hint } from "../../src/engine/hint.ts";
import type { Op, Outcome } from "../../src/engine/engine.ts";
import { BELOW_FLOORS, raiseFloors } from "../../src/engines/postgres/line/floors.ts";
import { Connection, type ConnectionOptions } from "../../src/engines/postgres/connection/connection.ts";
import { HEARTBEAT } from "../../src/engines/postgres/statements/newest.ts";
import { openConnection } from "../../src/engines/postgres/connection/open.ts";
import { PostgresStore } from "../../src/engines/postgres/batch/store.ts";
import { settingsFor } from "../../src/engines/postgres/connection/settings.ts";
import { clockIn, setClock } from "../postgres/moved-clock.ts";
import { dropSchema, emptied, sharedServer } from "../postgres/shared.ts";
import { FAILURE, NOT_THERE, type Subject, trap } from "./subject.ts";

const TX = { session: true, durability: "full" } as const;

/** One schema for all seeds of a process, emptied before each: creating one takes longer than a seed. */
let prepared: Promise<{ options: ConnectionOptions; link: Connection }> | undefined;

async function prepare(): Promise<{ options: ConnectionOptions; link: Connection }> {
  const schema = `simulation_${randomBytes(6).toString("hex")}`;
  const options: ConnectionOptions = {
    url: await sharedServer(),
    schema,
    prepare: true,
    settings: { ...settingsFor("full"), search_path: `${schema}_clock, pg_catalog` },
    connectMs: 10_000,
  };
  const link = await openConnection({ link: options });
  await link.exec(clockIn(`${schema}_clock`));
  return { options, link };
}

// The model counts each heartbeat.
HEARTBEAT.fresh = 0;

/** Called when a process has finished its seeds. */
export async function endSubjects(): Promise<void> {
  if (!prepared) return;
  const { options, link } = await prepared;
  prepared = undefined;
  await link.close();
  for (const schema of [options.schema, `${options.schema}_clock`]) await dropSchema(options.url, schema);
}

/**
 * The PostgreSQL store, and its failures. A crash is the end of its connection, by the server: what was not committed
 * never happened. Numbers that a failed batch took are reset, so that they match the model's.
 */
export class PostgresSubject implements Subject {
  readonly #salt: number;
  #link: Connection | undefined;
  #store: PostgresStore | undefined;

  constructor(salt: number) {
    this.#salt = salt;
  }

  async run(ops: Op[], reading: Reading): Promise<{ outcomes: Outcome[]; hint: Hint }> {
    const store = await this.#open();
    await this.#tell(reading);
    const { outcomes, hint } = await store.run(ops);
    await this.#tryFloors();
    return { outcomes, hint };
  }

  readonly canCrash = true;

  async crash(): Promise<void> {
    await this.#open();
    await this.#die();
  }

  async fail(ops: Op[], reading: Reading, reads: number): Promise<void> {
    await this.#failAt(ops, reading, reads);
  }

  async crashWithin(ops: Op[], reading: Reading, reads: number): Promise<void> {
    await this.#failAt(ops, reading, reads);
    await this.#die();
  }

  async end(): Promise<void> {
    await this.#link?.close();
  }

  async #open(): Promise<PostgresStore> {
    if (this.#store) return this.#store;
    prepared ??= prepare();
    const { options, link } = await prepared;
    await link.exec(emptied(options.schema));
    await link.all(
      `UPDATE dibs.store SET salt = $1, revision = 0, epoch = epoch + 1, subscribed = 0, unsubscribed = unsubscribed + 1
       WHERE one = 1`,
      this.#salt,
    );
    return this.#connect();
  }

  /** After every batch, as high as possible: the next operations must lower them. */
  async #tryFloors(): Promise<void> {
    const link = this.#link!;
    const below = await link.all(BELOW_FLOORS);
    if (below.length > 0) throw new Error(`below the floors: ${JSON.stringify(below)}`);
    const queues = await link.all<{ name: string }>(`SELECT name FROM dibs.queue`);
    await raiseFloors(
      link,
      queues.map(({ name }) => name),
    );
  }

  async #tell({ wall }: Reading): Promise<void> {
    const { options, link } = await prepared!;
    await link.all(setClock(`${options.schema}_clock`), Math.floor(wall));
  }

  async #connect(): Promise<PostgresStore> {
    const { options } = await prepared!;
    this.#link = await Connection.open(options);
    this.#store = new PostgresStore(this.#link, TX);
    return this.#store;
  }

  async #die(): Promise<void> {
    const [row] = await this.#link!.all<{ pid: number }>(`SELECT pg_backend_pid() AS pid`);
    const { link } = await prepared!;
    const ended = new Promise<void>((resolve) => this.#link!.onEnd(() => resolve()));
    // An idle connection does not keep the process alive.
    const alive = setInterval(() => {}, 1_000);
    await link.all(`SELECT pg_terminate_backend($1::int4)`, row!.pid);
    await ended;
    clearInterval(alive);
    await this.#connect();
  }

  async #failAt(ops: Op[], reading: Reading, reads: number): Promise<void> {
    const store = await this.#open();
    const numbers = await readNumbers((await prepared!).link);
    const task = trap(reads, () => {
      throw new Error(FAILURE);
    });
    try {
      await this.#tell(reading);
      await store.run([...ops, { verb: "add", tasks: [{ queue: NOT_THERE, data: "1" }, task] }]);
    } catch (error) {
      if (!(error instanceof Error && error.message.includes(FAILURE))) throw error;
      await resetNumbers((await prepared!).link, numbers);
      return;
    }
    throw new Error("a batch was made to fail, and did not");
  }
}

const SEQUENCES = ["seq", "fence", "session_id"] as const;

interface Numbers {
  last: number;
  called: boolean;
}

async function readNumbers(link: Connection): Promise<Numbers[]> {
  return Promise.all(
    SEQUENCES.map(async (name) => {
      const [row] = await link.all<Numbers>(
        `SELECT last_value AS last, is_called AS called FROM dibs.${name}`,
      );
      return row!;
    }),
  );
}

async function resetNumbers(link: Connection, numbers: Numbers[]): Promise<void> {
  for (const [index, { last, called }] of numbers.entries()) {
    await link.all(`SELECT setval('dibs.${SEQUENCES[index]}', $1, $2)`, last, called);
  }
}
