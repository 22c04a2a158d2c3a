import { Client } from "pg";
import { afterAll } from "vitest";
import { createBroker } from "../../src/broker/broker.ts";
import type { CallersTransaction, CleanUp, Harness, Opened } from "../../src/engine/conformance/harness.ts";
import { systemClock } from "../../src/engine/system-clock.ts";
import { openPostgres, type PostgresOptions } from "../../src/engines/postgres/engine.ts";
import type { ManualClock } from "../../src/testing/manual-clock.ts";
import { LIBRARIES } from "../postgres/libraries.ts";
import { dropSchema, emptied, freshSchema } from "../postgres/shared.ts";
import { Heart } from "./heart.ts";

interface Ground {
  url: string;
  schema: string;
}

/** A schema of its own for each store. To make one takes longer than a case: it is emptied, and serves the next. */
const free: Ground[] = [];
const made: Ground[] = [];
let admin: Client | undefined;

async function take(cleanUp: CleanUp): Promise<Ground> {
  const ground = free.pop() ?? (await make());
  cleanUp(async () => {
    await admin!.query(`${emptied(ground.schema)}; ${AS_MADE.replaceAll("@", ground.schema)}`);
    free.push(ground);
  });
  return ground;
}

const AS_MADE = `
  UPDATE @.store SET revision = 0, epoch = 0, event = 0, now = NULL, awake = NULL, boot = NULL, elapsed_at = NULL,
    awake_at = NULL, subscribed = 0, unsubscribed = 0`;

async function make(): Promise<Ground> {
  const ground = await freshSchema(() => {});
  made.push(ground);
  await (await openPostgres(ground)).close();
  admin ??= await connect(ground.url);
  return ground;
}

async function connect(url: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  await client.connect();
  // What a case has left open must not hold up all that follow.
  await client.query(`SET lock_timeout = '10s'`);
  return client;
}

/** To be called by the file that runs the suite. */
export function dropAfterAll(): void {
  afterAll(async () => {
    await admin?.end();
    for (const { url, schema } of made) await dropSchema(url, schema);
  });
}

type Begin = (url: string) => Promise<CallersTransaction>;

interface Way {
  /** A transaction of the caller's own, by whichever library. */
  begin: Begin;
  /** By another address than the server's own, through something that keeps nothing between transactions. */
  pooled?: (ground: Ground) => Promise<string>;
  /** By the server's own time, as it is everywhere but in tests. */
  realTime?: boolean;
}

function harnessBy(way: Way): Harness {
  return {
    shared: true,
    transactions: true,
    realTime: way.realTime ?? false,
    isDeaf: way.pooled !== undefined,
    open: async (clock, cleanUp) => openSchema(await take(cleanUp), clock, way),
  };
}

export function postgresWith(begin: Begin): Harness {
  return harnessBy({ begin });
}

export const postgres: Harness = postgresWith(LIBRARIES["pg"]!);

/**
 * Without a clock: what is settled beside the writer, the claim that is carried out at once, the thread that beats and the
 * server's own time come into play only so.
 */
export const postgresInRealTime: Harness = harnessBy({ begin: LIBRARIES["pg"]!, realTime: true });

/** Started with the first case, for all of them. */
export function postgresThrough(start: (url: string, cleanUp: CleanUp) => Promise<string>): Harness {
  let pooler: Promise<string> | undefined;
  const undoing: (() => Promise<void>)[] = [];
  afterAll(async () => {
    for (const undo of undoing) await undo();
  });
  return harnessBy({
    begin: LIBRARIES["pg"]!,
    pooled: ({ url }) => (pooler ??= start(url, (undo) => undoing.unshift(undo))),
  });
}

async function openSchema(ground: Ground, clock: ManualClock, way: Way): Promise<Opened> {
  const url = (await way.pooled?.(ground)) ?? ground.url;
  const options = { url, schema: ground.schema, listen: way.pooled === undefined };
  return {
    ...(await (way.realTime ? openInRealTime(options, clock) : openByHand(options, clock))),
    begin: () => way.begin(url),
    another: () => openSchema(ground, clock, way),
  };
}

async function openByHand(options: PostgresOptions, clock: ManualClock): Promise<Opened> {
  const heart = new Heart(clock);
  const engine = await openPostgres({ ...options, clock: heart });
  return { port: createBroker(engine, { clock }), hang: () => heart.stop() };
}

async function openInRealTime(options: PostgresOptions, clock: ManualClock): Promise<Opened> {
  const engine = await openPostgres(options);
  const told = { ...systemClock, standStill: (work: Promise<unknown>) => clock.standStill(work) };
  return {
    port: createBroker(engine, { clock: told }),
    hang: () => {
      // A thread cannot be held: cases that have to are those that let time pass after it.
      void clock.advance(1);
      return () => {};
    },
  };
}
