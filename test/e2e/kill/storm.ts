import { Random } from "../../simulation/random.ts";
import { pause, type Stage } from "../harness/stage.ts";
import type { Program } from "../harness/program.ts";
import type { Entry } from "../programs/storm-log.ts";
import { drain, killRunning, LEASE_MS, logOf, Logs, type Role, ROLES, startRole } from "./roles.ts";

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
  const disturbed = disturb && disturbUntil(isOver, () => begunIn(stage), disturb, new Random(seed + 7));
  // All at once, on a store that does not exist yet.
  await Promise.all([
    disturbed,
    ...ROLES.map(async (role, index) => {
      const random = new Random(seed * 1_000 + index);
      while (!isOver()) {
        const victim = startRole(stage, role, random.between(0, 2 ** 31), false);
        await haunt(victim, role, random, aftermath);
        await killRunning(victim);
        aftermath.kills++;
        if (cut.size < LOST_WORK) for (const fence of unsettledBy(stage, role, victim)) cut.add(fence);
      }
    }),
  ]);
  await drain(stage, new Random(seed));
  aftermath.entries = new Logs(stage).readNew();
  return aftermath;
}

/** Claims that must have been cut off. Some of them may be settled all the same, by an ack whose answer was lost. */
const LOST_WORK = 5;

/** The claims that this process had begun and not settled when it was killed. */
function unsettledBy(stage: Stage, { name }: Role, { pid }: Program): number[] {
  const begun = new Set<number>();
  for (const entry of logOf(stage, name)) {
    if (entry.kind === "began" && entry.by === `${name}-${pid}`) begun.add(entry.fence);
    else if ("fence" in entry) begun.delete(entry.fence);
  }
  return [...begun];
}

/** How many claims the consumers have begun, in all their lives. */
function begunIn(stage: Stage): number {
  const entries = ROLES.flatMap(({ name }) => logOf(stage, name));
  return entries.filter(({ kind }) => kind === "began").length;
}

/**
 * What happens to all of them at once, such as the end of their server. On a busy machine a process may need longer to
 * connect and claim than the pause, and none would ever hold a claim: so a claim begins between two disturbances.
 */
async function disturbUntil(
  isOver: () => boolean,
  begun: () => number,
  disturb: (random: Random) => Promise<void>,
  random: Random,
): Promise<void> {
  while (!isOver()) {
    const before = begun();
    await pause(random.between(300, 1_500));
    while (begun() === before && !isOver()) await pause(50);
    await disturb(random);
  }
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
