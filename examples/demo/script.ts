// The timetable of the demo, for 45 seconds. Another length scales it.

import { setTimeout as sleep } from "node:timers/promises";
import type { Dibs } from "../../src/index.ts";
import type { Story, Tally } from "./story.ts";
import type { Supervisor } from "./supervisor.ts";

export const USUAL_SECONDS = 45;

interface Stage {
  dibs: Dibs;
  supervisor: Supervisor;
  story: Story;
  /** Aborts when the user ends the demo. */
  signal: AbortSignal;
}

interface Event {
  at: number;
  happen: (stage: Stage) => Promise<void> | void;
}

const SCRIPT: Event[] = [
  { at: 0, happen: (stage) => produce(stage, 25, "a producer adds 25 jobs a second") },
  { at: 0.5, happen: (stage) => hire(stage, "ada") },
  { at: 2, happen: (stage) => hire(stage, "bob") },
  {
    at: 5,
    happen: (stage) => produce(stage, 110, "rush hour: 110 jobs a second, more than two workers can do"),
  },
  { at: 8, happen: (stage) => hire(stage, "cyd") },
  { at: 12, happen: (stage) => crash(stage, "bob") },
  { at: 17, happen: (stage) => produce(stage, 55, "the rush is over: 55 jobs a second") },
  { at: 18, happen: (stage) => hire(stage, "dan", { clumsy: true }) },
  { at: 27, happen: (stage) => dismiss(stage, "dan", ({ failed }) => failed > 2) },
  { at: 29, happen: (stage) => hire(stage, "eve") },
  { at: 32, happen: (stage) => dismiss(stage, "ada") },
  { at: 34, happen: (stage) => hire(stage, "bob") },
  { at: 36, happen: (stage) => crash(stage, "cyd") },
  { at: 39, happen: closeUp },
];

export async function play(stage: Stage, seconds: number): Promise<void> {
  const { signal } = stage;
  const stretch = seconds / USUAL_SECONDS;
  for (const { at, happen } of SCRIPT) {
    await sleep(Math.max(0, at * stretch - stage.story.seconds) * 1_000, undefined, { signal });
    await happen(stage);
  }
  await sleep(Math.max(0, seconds - stage.story.seconds) * 1_000, undefined, { signal });
}

function produce({ supervisor, story }: Stage, perSecond: number, text: string): void {
  supervisor.setRate(perSecond);
  story.tell(text);
}

function hire({ supervisor, story }: Stage, name: string, options: { clumsy?: boolean } = {}): void {
  supervisor.start(name, options);
  story.tell(options.clumsy ? `worker ${name} starts; it fails at every image` : `worker ${name} starts`);
}

async function dismiss(stage: Stage, name: string, hasShown = ({ done }: Tally) => done > 0): Promise<void> {
  const { supervisor, story } = stage;
  await until(stage, () => hasShown(story.tally(name)));
  supervisor.stop(name);
  story.tell(`worker ${name} is asked to stop: it finishes what it has begun`);
}

async function crash(stage: Stage, name: string): Promise<void> {
  const { dibs, supervisor, story } = stage;
  const pid = supervisor.workers.get(name)?.pid;
  const claims = async () => (await dibs.workers()).find((worker) => worker.pid === pid)?.claims ?? 0;
  await until(stage, async () => (await claims()) > 0);
  await supervisor.kill(name);
  // Its claims last until its lease ends, so they can be counted.
  const held = await claims();
  story.tell(`worker ${name} was killed while holding ${held} ${held === 1 ? "task" : "tasks"}`);
}

async function closeUp({ supervisor, story }: Stage): Promise<void> {
  story.tell("the producer stops; the workers finish what is left");
  await supervisor.stopProducer();
}

/** On a slow machine, steps take longer than planned: the demo waits for each effect, up to a limit. */
async function until({ signal }: Stage, isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (let looks = 0; looks < 200 && !(await isSo()); looks++) await sleep(50, undefined, { signal });
}
