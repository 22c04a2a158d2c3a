import { refuseSurplus } from "../core/input/arguments.ts";
import { encodeJson } from "../core/input/json.ts";
import type { Port } from "../core/port.ts";
import type { RunPart, RunRecord, RunState, Stage } from "../core/run/run.ts";
import { stagesBefore } from "../core/run/stage-graph.ts";
import { isEnd } from "../core/task/task.ts";
import { parseWait, runResultOf, type WaitOptions } from "./task-handle.ts";

/** A run of a pipeline, for its producer or any caller that has its id. */
export class RunHandle<Result = unknown> {
  /** The id of its first task. */
  readonly id: string;
  readonly #port: Port;

  constructor(port: Port, id: string) {
    this.#port = port;
    this.id = id;
  }

  /**
   * Resolves with what the last stage returned or, if parts were not joined, with a list of their results. Throws
   * TASK_DEAD while a task of the run is a dead letter: after a redrive the run continues, and this can be called
   * again. Throws TASK_CANCELLED, TASK_EXPIRED or TIMEOUT, as for a task.
   */
  async result(options: WaitOptions = {}): Promise<Result> {
    const end = await this.#port.end(this.id, { ...parseWait(options), of: "runs" });
    return runResultOf(end) as Result;
  }

  /** How far the run is, by stage and part. */
  async status(): Promise<RunStatus> {
    const page = await this.#port.run(this.id);
    const parts = [...page.parts];
    for (let { next } = page; next !== null;) {
      const more = await this.#port.run(this.id, { after: next });
      parts.push(...more.parts);
      next = more.next;
    }
    return describeRun(page.run, parts);
  }

  /**
   * Sends a signal to every task of the run that waits for it with `task.waitFor(name)`, now or later. Resolves with
   * whether it was stored. It is not stored if the run has ended or already received a signal of that name.
   */
  async signal(name: string, data?: unknown): Promise<boolean> {
    const value = data === undefined ? null : encodeJson(data, "the signal's data");
    return this.#port.signal(this.id, name, value, { of: "runs" });
  }

  /** Cancels tasks that wait, and asks the workers of running ones to stop. Resolves with the state of the run. */
  async cancel(): Promise<RunState> {
    return this.#port.cancelRun(this.id);
  }
}

/** A run as `add` returns it. */
export class AddedRun<Result = unknown> extends RunHandle<Result> {
  readonly pipeline: string;
  /** The idempotencyKey was in use: this is the run that has it, and none was begun. */
  readonly existing: boolean;

  constructor(port: Port, pipeline: string, added: { id: string; existing: boolean }) {
    super(port, added.id);
    this.pipeline = pipeline;
    this.existing = added.existing;
  }
}

/** A run in a list. */
export interface RunInfo extends Omit<RunRecord, "createdAt" | "endedAt"> {
  createdAt: Date;
  endedAt: Date | null;
}

export function runInfo(run: RunRecord): RunInfo {
  return { ...run, createdAt: new Date(run.createdAt), endedAt: date(run.endedAt) };
}

export interface RunStatus extends Omit<RunRecord, "stages" | TimeField> {
  createdAt: Date;
  endedAt: Date | null;
  stages: StageStatus[];
}

export interface StageStatus extends Stage {
  /** `pending`: no task of the run has reached this stage. */
  state: RunState | "pending";
  /** The earliest last start of its tasks, and the latest end. */
  startedAt: Date | null;
  endedAt: Date | null;
  parts: PartStatus[];
}

export interface PartStatus extends Omit<RunPart, "stage" | "queue" | TimeField> {
  createdAt: Date;
  startedAt: Date | null;
  endedAt: Date | null;
}

type TimeField = "createdAt" | "startedAt" | "endedAt";

function describeRun(run: RunRecord, parts: RunPart[]): RunStatus {
  const underWay = new Set<string>();
  const byStage = Map.groupBy(parts, ({ stage }) => stage);
  const stages = run.stages.map((stage): StageStatus => {
    const here = byStage.get(stage.name) ?? [];
    const before = stagesBefore(run.stages, stage.name);
    const state = stateOfStage(here, !before.isDisjointFrom(underWay));
    if (state === "running" || state === "dead") underWay.add(stage.name);
    const isOver = here.length > 0 && state !== "running" && state !== "dead";
    return {
      ...stage,
      state,
      startedAt: date(extreme(here, "startedAt", Math.min)),
      endedAt: isOver ? date(extreme(here, "endedAt", Math.max)) : null,
      parts: here.map(describePart),
    };
  });
  return { ...run, createdAt: new Date(run.createdAt), endedAt: date(run.endedAt), stages };
}

function stateOfStage(parts: RunPart[], isUnderWayBefore: boolean): StageStatus["state"] {
  if (parts.length === 0) return "pending";
  if (parts.some(({ state }) => state === "dead")) return "dead";
  if (parts.some(({ state }) => !isEnd(state))) return "running";
  const unhappy = parts.find(({ state }) => state !== "done");
  if (unhappy) return unhappy.state as RunState;
  // More parts may still arrive.
  return isUnderWayBefore ? "running" : "done";
}

function describePart({ id, part, state, createdAt, startedAt, endedAt }: RunPart): PartStatus {
  return {
    ...{ id, part, state },
    ...{ createdAt: new Date(createdAt), startedAt: date(startedAt), endedAt: date(endedAt) },
  };
}

/** Reduces instead of spreading into Math.min: a run may have more parts than a call can have arguments. */
function extreme(
  parts: readonly RunPart[],
  field: "startedAt" | "endedAt",
  choose: (a: number, b: number) => number,
): number | null {
  const known = parts.map((part) => part[field]).filter((time) => time !== null);
  return known.length === 0 ? null : known.reduce((a, b) => choose(a, b));
}

function date(time: number | null): Date | null {
  return time === null ? null : new Date(time);
}

refuseSurplus(RunHandle, "run", {
  promises: { result: "options", status: "", signal: "name, data", cancel: "" },
});
