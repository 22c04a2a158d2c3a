import { Client } from "pg";
import { afterAll } from "vitest";
import { createBroker } from "../../src/broker/broker.ts";
import type { CallersTransaction, CleanUp, Harness, Opened } from "../../src/engine/conformance/harness.ts";
import { openPostgres } from "../../src/engines/postgres/engine.ts";
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
}

function harnessBy(way: Way): Harness {
  return {
    shared: true,
    transactions: true,
    open: async (clock, cleanUp) => openSchema(await take(cleanUp), clock, way),
  };
}

export function postgresWith(begin: Begin): Harness {
  return harnessBy({ begin });
}

export const postgres: Harness = postgresWith(LIBRARIES["pg"]!);

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
  const heart = new Heart(clock);
  const url = (await way.pooled?.(ground)) ?? ground.url;
  const { schema } = ground;
  const engine = await openPostgres({ url, schema, clock: heart, listen: way.pooled === undefined });
  return {
    port: createBroker(engine, { clock }),
    hang: () => heart.stop(),
    begin: () => way.begin(url),
    another: () => openSchema(ground, clock, way),
  };
}
