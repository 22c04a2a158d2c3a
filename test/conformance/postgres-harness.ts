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
import { Heart } from "./heart.ts";

/** A database with a clock of its own, and a store in it. */
interface Ground {
  url: string;
  admin: Client;
}

/** To make one takes longer than a case: it is emptied, and serves the next. */
const free: Ground[] = [];
const undoing: (() => Promise<void>)[] = [];

async function take(cleanUp: CleanUp): Promise<Ground> {
  const ground = free.pop() ?? (await make());
  cleanUp(async () => {
    await ground.admin.query(asMade("dibs"));
    free.push(ground);
  });
  return ground;
}

async function make(): Promise<Ground> {
  const url = await freshDatabase((undo) => undoing.unshift(undo));
  const admin = new Client({ connectionString: url });
  await admin.connect();
  undoing.unshift(() => admin.end());
  // What a case has left open must not hold up all that follow.
  await admin.query(`SET lock_timeout = '10s'`);
  await installClock(admin);
  await (await openPostgres({ url })).close();
  return { url, admin };
}

/** To be called by the file that runs the suite. */
export function dropAfterAll(): void {
  afterAll(async () => {
    for (const undo of undoing) await undo();
  });
}

type Begin = (url: string) => Promise<CallersTransaction>;

interface Way {
  /** A transaction of the caller's own, by whichever library. */
  begin: Begin;
  /** The port of something that keeps nothing between transactions, by which the store is reached. */
  pooler?: (url: string) => Promise<string>;
}

function harnessBy(way: Way): Harness {
  return {
    shared: true,
    transactions: true,
    serverTime: true,
    isDeaf: way.pooler !== undefined,
    open: async (clock, cleanUp) => {
      const ground = await take(cleanUp);
      return openStore(ground, { clock, server: new ServerClock(ground.admin, clock) }, way);
    },
  };
}

export function postgresWith(begin: Begin): Harness {
  return harnessBy({ begin });
}

export const postgres: Harness = postgresWith(LIBRARIES["pg"]!);

/** Started with the first case, for all of them. */
export function postgresThrough(start: (url: string, cleanUp: CleanUp) => Promise<string>): Harness {
  let pooler: Promise<string> | undefined;
  return harnessBy({
    begin: LIBRARIES["pg"]!,
    pooler: async (url) => new URL(await (pooler ??= start(url, (undo) => undoing.unshift(undo)))).port,
  });
}

async function openStore(
  ground: Ground,
  time: { clock: ManualClock; server: ServerClock },
  way: Way,
): Promise<Opened> {
  const url = new URL(ground.url);
  if (way.pooler) url.port = await way.pooler(ground.url);
  const { clock, server } = time;
  const heart = new Heart(clock);
  const options = { url: url.href, listen: way.pooler === undefined };
  const engine = await openByServerClock(options, server, { clock, beats: heart });
  return {
    port: createBroker(engine, { clock }),
    transfer: () => openPostgresTransfer({ url: ground.url }),
    hang: () => heart.stop(),
    begin: () => way.begin(url.href),
    another: () => openStore(ground, time, way),
  };
}
