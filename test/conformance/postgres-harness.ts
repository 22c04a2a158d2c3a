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

/** `begin`: a transaction of the caller's own, by whichever library. */
export function postgresWith(begin: Begin): Harness {
  return {
    shared: true,
    transactions: true,
    open: async (clock, cleanUp) => openSchema(await take(cleanUp), clock, begin),
  };
}

export const postgres: Harness = postgresWith(LIBRARIES["pg"]!);

async function openSchema(ground: Ground, clock: ManualClock, begin: Begin): Promise<Opened> {
  const heart = new Heart(clock);
  const engine = await openPostgres({ ...ground, clock: heart });
  return {
    port: createBroker(engine, { clock }),
    hang: () => heart.stop(),
    begin: () => begin(ground.url),
    another: () => openSchema(ground, clock, begin),
  };
}
