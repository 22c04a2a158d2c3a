import { ALL_CHILDREN } from "../../../../src/core/handler/children-signal.ts";
import { errorFrom, isDibsError } from "../../../../src/core/errors/errors.ts";
import type { ClaimedTask } from "../../../../src/core/task/task.ts";
import type { Engine, Op, Outcome } from "../../../../src/engine/engine.ts";
import type { Settlement } from "../../../../src/engine/settlement.ts";
import { ExclusiveTimeout } from "../../../../src/engines/postgres/connection/batch-conflicts.ts";
import { openPostgres } from "../../../../src/engines/postgres/engine.ts";
import { Random } from "../../../simulation/random.ts";

/**
 * One of several processes that work on the same runs and families: node process.ts URL SEED STEPS. Every step is a batch of random
 * operations. lock-order.test.ts starts it, and asks the server how many deadlocks there were.
 */

/** What a process prints at its end. */
export interface ProcessReport {
  /** How many runs it saw. */
  runs: number;
  refused: number;
  warnings: string[];
}

const STAGES = [
  { name: "split", joins: false },
  { name: "check", joins: false },
  { name: "join", joins: true },
];
const QUEUES = ["p/split", "p/check", "p/check/verify", "p/join", "parts"];
const VERIFY = "p/check/verify";
const ERROR = { name: "Error", message: "no", stack: null };
const ANY = {};

const [url = "", seed = "1", steps = "100"] = process.argv.slice(2);
const random = new Random(Number(seed));
const runs: string[] = [];
const held: ClaimedTask[] = [];
/** Tasks that this process had, wherever they are now. */
const seen: string[] = [];

function settlementOf(task: ClaimedTask): Settlement {
  if (task.queue === VERIFY) {
    const of = JSON.parse(task.data as string) as { id: string; fence: number };
    const verdict = random.weighted({ accept: 6, refuse: 2, reject: 1, ack: 1 });
    if (verdict === "reject") return { kind: "reject", error: ERROR };
    if (verdict === "ack") return { kind: "done", result: null };
    if (verdict === "accept") return { kind: "verdict", of, accepted: true };
    return { kind: "verdict", of, accepted: false, feedback: "again", delay: random.between(0, 20) };
  }
  if (task.queue === "p/split") return { kind: "done", result: "[1,2,3,4,5,6,7,8]", each: true };
  const word = random.weighted({ ack: 8, fail: 2, reject: 1, release: 1, park: 3 });
  switch (word) {
    case "ack":
      return { kind: "done", result: "1" };
    case "fail":
      return { kind: "fail", error: ERROR, delay: random.between(0, 20) };
    case "reject":
      return { kind: "reject", error: ERROR };
    case "release":
      return { kind: "release", started: true };
    case "park":
      return random.chance(0.4)
        ? { kind: "park", signal: "go", timeout: 10 }
        : { kind: "park", signal: ALL_CHILDREN, timeout: random.pick([null, 50]) };
  }
}

/** Few of each: all processes insert the same ones, in any order. */
function groupAndKey(): { groupKey?: string; idempotencyKey?: string } {
  return {
    ...(random.chance(0.4) && { groupKey: random.pick(["a", "b", "c"]) }),
    ...(random.chance(0.4) && { idempotencyKey: `${random.between(1, 6)}` }),
  };
}

function nextOp(): Op {
  const what = random.weighted({
    ...{ begin: 3, claim: 8, settle: 16, cancelRun: 2, cancel: 3, redrive: 1, discard: 1 },
    ...{ spawn: 6, purge: 0.3, drop: 0.2, housekeep: 3, signal: 2, plain: 5, prune: 0.3 },
  });
  switch (what) {
    case "begin": {
      const ttl = random.chance(0.3) ? { ttl: random.between(1, 200) } : {};
      const task = { queue: "p/split", data: "0", run: { pipeline: "p", stages: STAGES }, ...ttl };
      return { verb: "add", tasks: [{ ...task, ...groupAndKey() }] };
    }
    case "plain":
      return {
        verb: "add",
        tasks: [{ queue: "p/check", data: "0", ttl: random.between(1, 500), ...groupAndKey() }],
      };
    case "claim": {
      const queues = random.some(QUEUES);
      return {
        verb: "claim",
        queues,
        max: random.between(1, 10),
        worker: "w",
        lease: random.between(5, 400),
      };
    }
    case "settle": {
      const [task] = held.splice(random.between(0, held.length - 1), 1);
      if (!task) return { verb: "housekeep" };
      return { verb: "settle", id: task.id, fence: task.fence, settlement: settlementOf(task) };
    }
    case "spawn": {
      const [parent] = random.some(held);
      if (!parent) return { verb: "housekeep" };
      const names = random.some(["a", "b", "c"]);
      const ttl = random.chance(0.3) ? { ttl: random.between(1, 200) } : {};
      const children = names.map((name) => ({
        name,
        task: { queue: random.pick(["p/check", "parts"]), data: "0", ...ttl, ...groupAndKey() },
      }));
      return { verb: "spawn", id: parent.id, fence: parent.fence, children };
    }
    case "cancelRun":
      return runs.length > 0
        ? { verb: "cancelRun", id: random.pick(runs.slice(-40)) }
        : { verb: "housekeep" };
    case "cancel":
      return seen.length > 0 ? { verb: "cancel", id: random.pick(seen.slice(-40)) } : { verb: "housekeep" };
    case "signal":
      return seen.length > 0
        ? { verb: "signal", id: random.pick(seen.slice(-40)), name: "go", value: null }
        : { verb: "housekeep" };
    case "redrive":
      return { verb: "redrive", queue: random.pick(QUEUES), filter: ANY, spacing: 0 };
    case "discard":
      return { verb: "discard", queue: random.pick(QUEUES), filter: ANY };
    case "purge":
      return { verb: "purge", queue: random.pick(QUEUES), limit: 50 };
    case "drop":
      return { verb: "drop", queue: random.pick([VERIFY, "p/join"]), limit: 100 };
    case "prune":
      return { verb: "prune", limit: 20 };
    case "housekeep":
      return { verb: "housekeep" };
  }
}

const EXPECTED = new Set(["CLAIM_LOST", "TASK_NOT_FOUND", "TASK_CANCELLED", "INVALID"]);

/** How many steps were refused because they must be exclusive, and others kept the store busy for 15 seconds. */
let refused = 0;

/**
 * On a slow machine a drop or a declaration may not get its moment without other batches. Every other refusal fails the
 * test: for example that of a batch which met conflicts again and again.
 */
function unlessBusy(error: unknown): Outcome[] {
  if (!isDibsError(error) || !(error.cause instanceof ExclusiveTimeout)) throw error;
  refused++;
  return [];
}

async function step(engine: Engine): Promise<void> {
  const ops = Array.from({ length: random.between(1, 8) }, nextOp);
  const outcomes = await engine.execute(ops).catch(unlessBusy);
  for (const [index, op] of ops.entries()) {
    const outcome = outcomes[index];
    if (!outcome) return;
    if ("refused" in outcome) {
      if (!EXPECTED.has(outcome.refused.code)) throw errorFrom(outcome.refused);
      continue;
    }
    if (op.verb === "claim") for (const task of (outcome.ok as { tasks: ClaimedTask[] }).tasks) hold(task);
  }
}

function hold(task: ClaimedTask): void {
  held.push(task);
  seen.push(task.id);
  if (task.run && !runs.includes(task.run.id)) runs.push(task.run.id);
}

const warnings: string[] = [];
const logger = {
  debug() {},
  info() {},
  warn: (text: string) => void warnings.push(text),
  error: console.error,
};
const engine = await openPostgres({ url, logger });
const policy = { verified: true, maxAttempts: 3 };
while (
  (await engine.execute([{ verb: "declare", queue: "p/check", policy }]).catch(unlessBusy)).length === 0
);
for (let i = 0; i < Number(steps); i++) await step(engine);
await engine.close();
console.log(JSON.stringify({ runs: runs.length, refused, warnings } satisfies ProcessReport));
