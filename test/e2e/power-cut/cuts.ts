import { expect } from "vitest";
import type { Dibs } from "../../../src/index.ts";
import { Random } from "../../simulation/random.ts";
import type { Program } from "../harness/program.ts";
import { pause, type Stage, until } from "../harness/stage.ts";
import { drain, killRunning, Logs, ROLES, startRole } from "../kill/roles.ts";
import type { Entry } from "../programs/storm-log.ts";
import { expectFencesGrow, findLosses } from "./losses.ts";

/** What loses its power. */
export interface Machine {
  /** Producers and workers run on it, and end with it. Otherwise they live on, and only their store is on it. */
  hasPrograms: boolean;
  /** Everything that runs on it ends, these programs too. */
  cut(programs: Program[]): Promise<void>;
  /** The power is back: the store as the machine finds it. */
  inspect(): Promise<Dibs>;
  /** The machine runs again. */
  resume(): Promise<void>;
}

export interface Aftermath {
  entries: Entry[];
  cutWhileStarting: number;
}

/**
 * Two producers and three consumers share a store whose machine loses its power again and again. After each cut all that
 * was acknowledged must be there, and fences must not begin again. The seed decides when each cut comes and what the tasks
 * do, but not the timing of the machine.
 */
export async function cutRepeatedly(
  stage: Stage,
  machine: Machine,
  cuts: number,
  seed: number,
): Promise<Aftermath> {
  const random = new Random(seed);
  const logs = new Logs(stage);
  const rounds: Entry[][] = [];
  let cutWhileStarting = 0;
  let programs = startAll(stage, random);
  for (let cut = 0; cut < cuts; cut++) {
    // The first cut always finds work: one cut must prove something.
    if (cut > 0 && random.chance(0.25)) {
      await pause(random.between(0, 1_000));
      if (!programs.every(isReady)) cutWhileStarting++;
    } else {
      await waitForWork(programs, logs, random);
    }
    for (const program of programs) checkRunning(program);
    await machine.cut(machine.hasPrograms ? programs : []);
    const producers = programs.filter(({ name }) => name === "storm-producer.ts");
    // Those that live on wait: inspecting takes seconds on a busy machine, and thousands of tasks would arrive meanwhile.
    for (const producer of producers) producer.signal("SIGSTOP");
    const round = logs.readNew();
    rounds.push(round);
    const dibs = await machine.inspect();
    expect(await findLosses(dibs, round), "acknowledged before the cut, and not in the store").toEqual([]);
    await dibs.close();
    await machine.resume();
    for (const producer of producers) producer.signal("SIGCONT");
    if (machine.hasPrograms) programs = startAll(stage, random);
  }
  await waitForWork(programs, logs, random);
  for (const program of programs) await killRunning(program);
  await drain(stage, random);
  rounds.push(logs.readNew());
  // A process that lives on may begin late what it claimed before the cut: there, the ledger shows the order.
  if (machine.hasPrograms) expectFencesGrow(rounds);
  return { entries: rounds.flat(), cutWhileStarting };
}

/** Fewer than in kill/storm.ts: after each cut all of them start at once. */
const SOME = ROLES.filter(({ name }) => name !== "producer-2" && name !== "worker-3");

function startAll(stage: Stage, random: Random): Program[] {
  return SOME.map((role) => startRole(stage, role, random.between(0, 2 ** 31), false));
}

/** Until the processes have logged so much, whatever time that takes: machines differ in speed. */
async function waitForWork(programs: Program[], logs: Logs, random: Random): Promise<void> {
  const more = random.between(1_000, 60_000);
  const moment = random.between(0, 50);
  const enough = logs.bytes + more;
  await Promise.all(programs.map((program) => program.hears("ready")));
  await until("the processes have worked", () => logs.bytes >= enough);
  await pause(moment);
}

function isReady(program: Program): boolean {
  return program.all("ready").length > 0;
}

function checkRunning(program: Program): void {
  if (!program.isRunning)
    throw new Error(`${program.name} ended before the power was cut: ${program.stderr}`);
}
