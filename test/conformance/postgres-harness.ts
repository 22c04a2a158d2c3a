import { afterAll } from "vitest";
import { createBroker } from "../../src/broker/broker.ts";
import type { CallersTransaction, CleanUp, Harness, Opened } from "../../src/engine/conformance/harness.ts";
import { openPostgres } from "../../src/engines/postgres/engine.ts";
import type { ManualClock } from "../../src/testing/manual-clock.ts";
import { LIBRARIES } from "../postgres/libraries.ts";
import { dropSchema, freshSchema } from "../postgres/shared.ts";
import { Heart } from "./heart.ts";

interface Ground {
  url: string;
  schema: string;
}

/** A schema of its own for each store. To make and drop one takes as long as a case: both are done beside the cases. */
let next: Promise<Ground> | undefined;
let dropping: Promise<void> = Promise.resolve();

async function make(): Promise<Ground> {
  const ground = await freshSchema(() => {});
  await (await openPostgres(ground)).close();
  return ground;
}

async function take(cleanUp: CleanUp): Promise<Ground> {
  const ground = await (next ?? make());
  next = make();
  // Awaited at the end; until then it must not count as unhandled.
  next.catch(() => {});
  cleanUp(async () => drop(ground));
  return ground;
}

function drop({ url, schema }: Ground): void {
  dropping = dropping.then(() => dropSchema(url, schema));
}

/** To be called by the file that runs the suite. */
export function dropAfterAll(): void {
  afterAll(async () => {
    if (next) drop(await next);
    await dropping;
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
