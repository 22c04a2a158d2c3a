import { Client } from "pg";
import { afterAll } from "vitest";
import { createBroker } from "../../src/broker/broker.ts";
import type { CallersTransaction, CleanUp, Harness, Opened } from "./suite/harness.ts";
import { openPostgres } from "../../src/engines/postgres/engine.ts";
import { openPostgresTransfer } from "../../src/engines/postgres/transfer/transfer.ts";
import type { ManualClock } from "../../src/testing/manual-clock.ts";
import { LIBRARIES } from "../postgres/libraries.ts";
import { installClock, openByServerClock, ServerClock } from "../postgres/moved-clock.ts";
import { asMade, freshDatabase } from "../postgres/shared.ts";
import { StoppableClock } from "./stoppable-clock.ts";

/** A database with its own clock, and a store in it. */
interface TestDatabase {
  url: string;
  admin: Client;
}

/** Databases for reuse: creating one takes longer than a case, so it is emptied for the next case. */
const free: TestDatabase[] = [];
const undoing: (() => Promise<void>)[] = [];

async function take(cleanUp: CleanUp): Promise<TestDatabase> {
  const database = free.pop() ?? (await make());
  cleanUp(async () => {
    await database.admin.query(asMade("dibs"));
    free.push(database);
  });
  return database;
}

async function make(): Promise<TestDatabase> {
  const url = await freshDatabase((undo) => undoing.unshift(undo));
  const admin = new Client({ connectionString: url });
  await admin.connect();
  undoing.unshift(() => admin.end());
  // A transaction that a case has left open must not block all later cases.
  await admin.query(`SET lock_timeout = '10s'`);
  await installClock(admin);
  await (await openPostgres({ url })).close();
  return { url, admin };
}

/** The file that runs the suite must call this. */
export function dropAfterAll(): void {
  afterAll(async () => {
    for (const undo of undoing) await undo();
  });
}

type Begin = (url: string) => Promise<CallersTransaction>;

interface Access {
  /** Begins a transaction of the caller, with any library. */
  begin: Begin;
  /** The port of a connection pooler in transaction mode in front of the server. */
  pooler?: (url: string) => Promise<string>;
}

function harnessBy(access: Access): Harness {
  return {
    shared: true,
    transactions: true,
    serverTime: true,
    withoutHints: access.pooler !== undefined,
    open: async (clock, cleanUp) => {
      const database = await take(cleanUp);
      return openStore(database, { clock, server: new ServerClock(database.admin, clock) }, access);
    },
  };
}

export function postgresWith(begin: Begin): Harness {
  return harnessBy({ begin });
}

export const postgres: Harness = postgresWith(LIBRARIES["pg"]!);

/** Runs the suite through a pooler, which is started with the first case. */
export function postgresThrough(start: (url: string, cleanUp: CleanUp) => Promise<string>): Harness {
  let pooler: Promise<string> | undefined;
  return harnessBy({
    begin: LIBRARIES["pg"]!,
    pooler: async (url) => new URL(await (pooler ??= start(url, (undo) => undoing.unshift(undo)))).port,
  });
}

async function openStore(
  database: TestDatabase,
  time: { clock: ManualClock; server: ServerClock },
  access: Access,
): Promise<Opened> {
  const url = new URL(database.url);
  if (access.pooler) url.port = await access.pooler(database.url);
  const { clock, server } = time;
  const timers = new StoppableClock(clock);
  const options = { url: url.href, listen: access.pooler === undefined };
  const engine = await openByServerClock(options, server, { clock, beats: timers });
  return {
    port: createBroker(engine, { clock }),
    transfer: () => openPostgresTransfer({ url: database.url }),
    hang: () => timers.stop(),
    begin: () => access.begin(url.href),
    another: () => openStore(database, time, access),
  };
}
