import { expect } from "vitest";
import type { ClaimedTask } from "../../../src/core/task/task.ts";
import type { ClaimRequest } from "../../../src/engine/claim-request.ts";
import type { Engine, Op, VerbName, Verbs } from "../../../src/engine/engine.ts";
import { ground } from "./kit.ts";

/** Operations of tests that have a queue called "work", and carry out one verb at a time. */

export const ERROR = { name: "Error", message: "it broke", stack: null };

export async function run<V extends VerbName>(engine: Engine, op: Op<V>): Promise<Verbs[V]["out"]> {
  const [outcome] = await engine.execute([op]);
  expect(outcome).toHaveProperty("ok");
  return (outcome as { ok: Verbs[V]["out"] }).ok;
}

export async function claimAll(engine: Engine, options: Partial<ClaimRequest> = {}): Promise<ClaimedTask[]> {
  const request = { queues: ["work"], max: 10, worker: "w", lease: 60_000, ...options };
  return (await run(engine, { verb: "claim", ...request })).tasks;
}

export async function joinAs(engine: Engine, id: string): Promise<number> {
  const worker = { id, name: id, queues: ["work"], concurrency: 1, host: "host", pid: 1 };
  return (await run(engine, { verb: "join", worker, lease: 60_000 })).session;
}

export function named(data: string, groupKey?: string) {
  return { queue: "work", data, ...(groupKey !== undefined && { groupKey }) };
}

export function heldBy({ id, fence }: ClaimedTask): { id: string; fence: number } {
  return { id, fence };
}

export function done(task: ClaimedTask): Op<"settle"> {
  return { verb: "settle", ...heldBy(task), settlement: { kind: "done", result: null } };
}

export function failed(task: ClaimedTask, delay = 0): Op<"settle"> {
  return { verb: "settle", ...heldBy(task), settlement: { kind: "fail", error: ERROR, delay } };
}

export function signalled(id: string): Op<"signal"> {
  return { verb: "signal", id, name: "go", value: null };
}

/** Two processes that know the queue, in which nothing is left. */
export async function setUp() {
  const place = await ground();
  const [here, there] = [await place.engine(), await place.engine()];
  for (const engine of [here, there]) {
    await run(engine, { verb: "add", tasks: [named("0")] });
    for (const task of await claimAll(engine)) await run(engine, done(task));
  }
  return { place, here, there };
}
