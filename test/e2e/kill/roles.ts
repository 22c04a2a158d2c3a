import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Random } from "../../simulation/random.ts";
import type { Program } from "../harness/program.ts";
import { pause, type Stage } from "../harness/stage.ts";
import { type Entry, readLog } from "../programs/storm-log.ts";

/** The processes that share a store and are killed, by kill/storm.ts one by one, by power-cut/cuts.ts all at once. */

export const LEASE_MS = 700;

/** No task may die of bad luck: all must be done in the end. */
const policy = {
  lease: LEASE_MS,
  maxAttempts: 1_000,
  elsewhere: 200,
  backoff: { type: "fixed", delay: 10, jitter: 0 },
} as const;

export interface Role {
  name: string;
  program: string;
  byHand?: boolean;
  withoutKeys?: boolean;
}

export const ROLES: Role[] = [
  { name: "producer-1", program: "storm-producer.ts" },
  { name: "producer-2", program: "storm-producer.ts" },
  { name: "producer-3", program: "storm-producer.ts", withoutKeys: true },
  { name: "worker-1", program: "storm-worker.ts" },
  { name: "worker-2", program: "storm-worker.ts" },
  { name: "worker-3", program: "storm-worker.ts" },
  { name: "by-hand", program: "storm-worker.ts", byHand: true },
];

const CALM: Role[] = ["calm-1", "calm-2"].map((name) => ({ name, program: "storm-worker.ts" }));
const NAMES = [...ROLES, ...CALM].map(({ name }) => name);

/** 30 s: on a busy machine the two processes need ten to start. */
const STUCK_LOOKS = 300;

/** Completes what is left, without kills. */
export async function drain(stage: Stage, random: Random): Promise<void> {
  const dibs = await stage.open();
  const queue = dibs.queue("work");
  const calm = CALM.map((role) => startRole(stage, role, random.between(0, 2 ** 31), true));
  let left = Number.POSITIVE_INFINITY;
  for (let stuck = 0; left > 0;) {
    const { ready, waiting, scheduled, claimed } = (await queue.stats()).depth;
    stuck = ready + waiting + scheduled + claimed < left ? 0 : stuck + 1;
    left = ready + waiting + scheduled + claimed;
    if (stuck > STUCK_LOOKS)
      throw new Error(`The drain is stuck: ${JSON.stringify((await queue.stats()).depth)}`);
    await pause(100);
  }
  for (const worker of calm) {
    await worker.hears("ready");
    const exit = await worker.stop();
    if (exit.code !== 0)
      throw new Error(`A worker in peace ended with ${JSON.stringify(exit)}: ${worker.stderr}`);
  }
}

export function startRole(
  stage: Stage,
  role: Role,
  seed: number,
  calm: boolean,
  durability?: "relaxed",
): Program {
  const { name, byHand = false, withoutKeys = false } = role;
  const options = {
    file: stage.file,
    log: logPathOf(stage, name),
    policy,
    name,
    seed,
    byHand,
    withoutKeys,
    calm,
    durability,
  };
  return stage.start(role.program, options);
}

/** A process that ended by itself, for example by an uncaught error, was not killed by us. */
export async function killRunning(program: Program): Promise<void> {
  const exit = await program.kill();
  if (exit.signal !== "SIGKILL")
    throw new Error(`${program.name} ended by itself, with ${JSON.stringify(exit)}: ${program.stderr}`);
}

/** What a process logged in all its lives, in order. */
export function logOf(stage: Stage, name: string): Entry[] {
  const path = logPathOf(stage, name);
  return existsSync(path) ? readLog(path) : [];
}

/** The logs of all processes, as they grow. */
export class Logs {
  readonly #stage: Stage;
  readonly #read = new Map<string, number>();

  constructor(stage: Stage) {
    this.#stage = stage;
  }

  get bytes(): number {
    const sizeOf = (name: string) =>
      statSync(logPathOf(this.#stage, name), { throwIfNoEntry: false })?.size ?? 0;
    return NAMES.reduce((sum, name) => sum + sizeOf(name), 0);
  }

  /** What was logged since the last call: of each process in its own order. */
  readNew(): Entry[] {
    return NAMES.flatMap((name) => {
      const entries = logOf(this.#stage, name);
      const read = this.#read.get(name) ?? 0;
      this.#read.set(name, entries.length);
      return entries.slice(read);
    });
  }
}

function logPathOf(stage: Stage, name: string): string {
  return join(stage.folder, `${name}.log`);
}
