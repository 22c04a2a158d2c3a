// One frame of the demo: lines of text that fit the terminal.

import {
  bar,
  blue,
  bold,
  clock,
  cyan,
  dim,
  green,
  left,
  number,
  red,
  right,
  sparkline,
  yellow,
} from "./paint.ts";
import { SECONDS_SHOWN, type Story } from "./story.ts";
import type { Supervisor, WorkerProcess, WorkerState } from "./supervisor.ts";

export interface Scene {
  story: Story;
  supervisor: Supervisor;
  /** Planned length of the demo. */
  seconds: number;
}

export function frame(scene: Scene, columns: number, rows: number): string[] {
  const width = Math.min(columns, 110) - 2;
  const above = [
    ...title(scene, width),
    "",
    flow(scene.story, width),
    "",
    ...depths(scene.story, width),
    "",
    ...workers(scene, width),
    "",
  ];
  const below = ["", totals(scene.story)];
  const room = Math.max(2, rows - above.length - below.length);
  const lines = [...above, ...news(scene.story, width, room), ...below];
  return lines.slice(0, rows).map((line) => ` ${line}`);
}

function title({ story, supervisor, seconds }: Scene, width: number): string[] {
  const what = `dibs: ${supervisor.alive} processes, one file`;
  const time = `${clock(story.seconds)} of ${clock(seconds)}  Ctrl-C ends it`;
  return [bold(left(what, width - time.length)) + dim(time)];
}

function flow(story: Story, width: number): string {
  const lineWidth = Math.min(SECONDS_SHOWN, Math.floor((width - 3) / 2) - 11);
  const seconds = Math.floor(story.seconds);
  // The current second is not over yet.
  const added = lastSeconds(story.added, seconds);
  const done = lastSeconds(story.done, seconds);
  const full = Math.max(10, ...added, ...done);
  const part = (name: string, values: number[], paint: (text: string) => string) =>
    `${name} ${right(values.at(-1) ?? 0, 4)}/s ${paint(sparkline(values, full, lineWidth))}`;
  return `${part("in ", added, cyan)}   ${part("out", done, green)}`;
}

function lastSeconds(buckets: number[], seconds: number): number[] {
  const whole = Array.from({ length: seconds }, (_, second) => buckets[second] ?? 0);
  return whole.slice(-SECONDS_SHOWN);
}

const STATES = [
  { state: "ready", paint: blue, means: "for the next free worker" },
  { state: "claimed", paint: green, means: "a worker has it" },
  { state: "waiting", paint: cyan, means: "behind its group's first" },
  { state: "scheduled", paint: yellow, means: "failed, due again soon" },
  { state: "dead", paint: red, means: "given up, kept to look at" },
] as const;

function depths({ stats }: Story, width: number): string[] {
  const depth = stats?.depth;
  const full = Math.max(50, ...STATES.map(({ state }) => depth?.[state] ?? 0));
  const barWidth = Math.max(10, Math.min(40, width - 46));
  return STATES.map(({ state, paint, means }) => {
    const count = depth?.[state] ?? 0;
    return `${left(state, 10)} ${right(number(count), 6)} ${paint(bar(count, full, barWidth))} ${dim(means)}`;
  });
}

const STATE_COLOURS: Record<WorkerState, (text: string) => string> = {
  starting: dim,
  working: green,
  stopping: yellow,
  stopped: dim,
  killed: red,
};

/** Fixed, so that the frame does not jump when a worker starts. */
const WORKER_ROWS = 5;

function workers({ story, supervisor }: Scene, width: number): string[] {
  const header = dim(
    `${left("worker", 6)} ${right("pid", 7)} ${left("state", 8)} ${right("done", 6)} ${right("failed", 7)}  holds now`,
  );
  const rows = [...supervisor.workers.values()].map((worker) => workerRow(story, worker, width));
  return [header, ...rows, ...Array.from({ length: Math.max(0, WORKER_ROWS - rows.length) }, () => "")];
}

function workerRow(story: Story, { name, pid, state }: WorkerProcess, width: number): string {
  const { done, failed, holds } = story.tally(name);
  const [first, second, ...more] = [...holds].map((id) => story.nameOf(id));
  const held =
    [first, second].filter((each) => each !== undefined).join(", ") +
    (more.length > 0 ? ` and ${more.length} more` : "");
  const facts = `${right(number(done), 6)} ${right(number(failed), 7)}`;
  return `${left(name, 6)} ${right(pid, 7)} ${STATE_COLOURS[state](left(state, 8))} ${facts}  ${left(held, width - 41)}`;
}

function news({ news: all }: Story, width: number, rows: number): string[] {
  const shown = all.slice(-rows).map(({ at, text }) => `${dim(clock(at))} ${left(text, width - 5)}`);
  return [...shown, ...Array.from({ length: rows - shown.length }, () => "")];
}

function totals(story: Story): string {
  const { known, stats, lost, doubled } = story;
  const check = (name: string, count: number) => (count === 0 ? green : red)(`${name} ${count}`);
  const done = number(stats?.depth.done ?? 0);
  const dead = number(stats?.depth.dead ?? 0);
  return `added ${number(known.size)}   done ${done}   dead ${dead}   ${check("lost", lost)}   ${check("doubled", doubled)}`;
}

/** For a log: one line. */
export function plainLine({ story, supervisor }: Scene): string {
  const depth = story.stats?.depth;
  const at = Math.floor(story.seconds) - 1;
  const names = [...supervisor.workers.values()]
    .filter(({ state }) => state === "working")
    .map(({ name }) => name);
  return [
    clock(story.seconds),
    `in ${story.added[at] ?? 0}/s out ${story.done[at] ?? 0}/s`,
    ...STATES.map(({ state }) => `${state} ${depth?.[state] ?? 0}`),
    `done ${depth?.done ?? 0}`,
    `lost ${story.lost} doubled ${story.doubled}`,
    `workers ${names.join(" ") || "none"}`,
  ].join(" · ");
}
