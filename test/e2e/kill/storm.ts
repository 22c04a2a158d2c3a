import { existsSync } from "node:fs";
import { join } from "node:path";
import { Random } from "../../simulation/random.ts";
import { pause, type Stage } from "../harness/stage.ts";
import type { Program } from "../harness/program.ts";
import { type Entry, readLog } from "../programs/storm-log.ts";

export const LEASE_MS = 700;

/** No task may die of bad luck: all must be done in the end. */
const policy = {
  lease: LEASE_MS,
  maxAttempts: 1_000,
  elsewhere: 200,
  backoff: { type: "fixed", delay: 10, jitter: 0 },
} as const;

interface Role {
  name: string;
  program: string;
  byHand?: boolean;
  withoutKeys?: boolean;
}

const ROLES: Role[] = [
  { name: "producer-1", program: "storm-producer.ts" },
  { name: "producer-2", program: "storm-producer.ts" },
  { name: "producer-3", program: "storm-producer.ts", withoutKeys: true },
  { name: "worker-1", program: "storm-worker.ts" },
  { name: "worker-2", program: "storm-worker.ts" },
  { name: "worker-3", program: "storm-worker.ts" },
  { name: "by-hand", program: "storm-worker.ts", byHand: true },
];

export interface Aftermath {
  kills: number;
  killedWhileStarting: number;
  frozen: number;
  /** The logs of all lives of the processes, each in its own order. */
  entries: Entry[];
}

/**
 * Three producers and four consumers share a store, and each is killed again and again. All randomness comes from the
 * seed: when each is killed, whether it is frozen before, what its tasks do. The timing of the machine does not. It
 * continues until there were enough kills, kills have lost work, and the caller's disturbances were enough. On a busy
 * machine many processes die before they hold a claim.
 */
export async function storm(
  stage: Stage,
  kills: number,
  seed: number,
  disturb?: (random: Random) => Promise<void>,
  isEnough: () => boolean = () => true,
): Promise<Aftermath> {
  const cut = new Set<number>();
  const isOver = (): boolean => aftermath.kills >= kills && cut.size >= LOST_WORK && isEnough();
  const aftermath: Aftermath = { kills: 0, killedWhileStarting: 0, frozen: 0, entries: [] };
  const disturbed = disturb && disturbUntil(isOver, disturb, new Random(seed + 7));
  // All at once, on a store that does not exist yet.
  await Promise.all([
    disturbed,
    ...ROLES.map(async (role, index) => {
      const random = new Random(seed * 1_000 + index);
      while (!isOver()) {
        const victim = startRole(stage, role, random.between(0, 2 ** 31), false);
        await haunt(victim, role, random, aftermath);
        await killAlive(victim, role);
        aftermath.kills++;
        if (cut.size < LOST_WORK) for (const fence of unsettledBy(stage, role, victim)) cut.add(fence);
      }
    }),
  ]);
  await drain(stage, new Random(seed));
  aftermath.entries = [...ROLES, ...CALM].flatMap(({ name }) => readLog(logOf(stage, name)));
  return aftermath;
}

/** Claims that must have been cut off. Some of them may be settled all the same, by an ack whose answer was lost. */
const LOST_WORK = 5;

/** The claims that this process had begun and not settled when it was killed. */
function unsettledBy(stage: Stage, { name }: Role, { pid }: Program): number[] {
  const log = logOf(stage, name);
  const entries = existsSync(log) ? readLog(log) : [];
  const begun = new Set<number>();
  for (const entry of entries) {
    if (entry.kind === "began" && entry.by === `${name}-${pid}`) begun.add(entry.fence);
    else if ("fence" in entry) begun.delete(entry.fence);
  }
  return [...begun];
}

/** What happens to all of them at once, such as the end of their server. */
async function disturbUntil(
  isOver: () => boolean,
  disturb: (random: Random) => Promise<void>,
  random: Random,
): Promise<void> {
  while (!isOver()) {
    await pause(random.between(300, 1_500));
    await disturb(random);
  }
}

/** A process that ended by itself, for example by an uncaught error, was not killed by us. */
async function killAlive(victim: Program, { name }: Role): Promise<void> {
  const exit = await victim.kill();
  if (exit.signal !== "SIGKILL")
    throw new Error(`${name} ended by itself, with ${JSON.stringify(exit)}: ${victim.stderr}`);
}

/** Returns when the victim must die. */
async function haunt(victim: Program, role: Role, random: Random, aftermath: Aftermath): Promise<void> {
  const early = random.chance(0.25);
  const moment = early ? random.between(0, 300) : random.between(100, 600);
  const freeze = role.program === "storm-worker.ts" && random.chance(0.25);
  const frozenFor = random.between(LEASE_MS, 2 * LEASE_MS);
  const after = random.between(0, 200);
  if (early) {
    await pause(moment);
    if (victim.all("ready").length === 0) aftermath.killedWhileStarting++;
    return;
  }
  await victim.hears("ready");
  await pause(moment);
  if (!freeze) return;
  aftermath.frozen++;
  victim.signal("SIGSTOP");
  await pause(frozenFor);
  victim.signal("SIGCONT");
  await pause(after);
}

const CALM: Role[] = ["calm-1", "calm-2"].map((name) => ({ name, program: "storm-worker.ts" }));

/** 30 s: on a busy machine the two processes need ten to start. */
const STUCK_LOOKS = 300;

/** Completes what is left, without kills. */
async function drain(stage: Stage, random: Random): Promise<void> {
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

function startRole(stage: Stage, role: Role, seed: number, calm: boolean): Program {
  const { name, byHand = false, withoutKeys = false } = role;
  const options = {
    file: stage.file,
    log: logOf(stage, name),
    policy,
    name,
    seed,
    byHand,
    withoutKeys,
    calm,
  };
  return stage.start(role.program, options);
}

function logOf(stage: Stage, name: string): string {
  return join(stage.folder, `${name}.log`);
}
