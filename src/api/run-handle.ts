import { refuseSurplus } from "../core/arguments.ts";
import type { Port } from "../core/port.ts";
import type { RunPart, RunRecord, RunState, Stage } from "../core/run.ts";
import { isEnd } from "../core/task.ts";
import { parseWait, runResultOf, type WaitOptions } from "./task-handle.ts";

/** A journey through a pipeline as its producer, or anybody with its id, holds it. */
export class RunHandle<Result = unknown> {
  /** That of its first task. */
  readonly id: string;
  readonly #port: Port;

  constructor(port: Port, id: string) {
    this.#port = port;
    this.id = id;
  }

  /**
   * Resolves with what the last stage returned; where parts were not joined, with a list of what each came to. Throws
   * TASK_DEAD while a stage of it is a dead letter: redriven, the run goes on, and this may be asked again. Throws
   * TASK_CANCELLED, TASK_EXPIRED or TIMEOUT as a task's does.
   */
  async result(options: WaitOptions = {}): Promise<Result> {
    const end = await this.#port.end(this.id, { ...parseWait(options), of: "runs" });
    return runResultOf(end) as Result;
  }

  /** How far it is, stage by stage and part by part. */
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

  /** Ends whatever of it waits, and asks the workers of what runs to stop. Resolves with the state it is then in. */
  async cancel(): Promise<RunState> {
    return this.#port.cancelRun(this.id);
  }
}

/** A run as `add` returns it. */
export class AddedRun<Result = unknown> extends RunHandle<Result> {
  readonly pipeline: string;
  /** The idempotencyKey was taken: this is the run that has it, and none was begun. */
  readonly existing: boolean;

  constructor(port: Port, pipeline: string, added: { id: string; existing: boolean }) {
    super(port, added.id);
    this.pipeline = pipeline;
    this.existing = added.existing;
  }
}

export interface RunStatus extends Omit<RunRecord, "stages" | TimeField> {
  createdAt: Date;
  endedAt: Date | null;
  stages: StageStatus[];
}

export interface StageStatus extends Stage {
  /** `pending`: nothing of the run has come here. */
  state: RunState | "pending";
  /** When the first of its tasks was last started, and when the last ended. */
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
  let isUnderWayBefore = false;
  const stages = run.stages.map((stage): StageStatus => {
    const here = parts.filter((part) => part.stage === stage.name);
    const state = stateOfStage(here, isUnderWayBefore);
    isUnderWayBefore ||= state === "running" || state === "dead";
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
  // More of its parts may come.
  return isUnderWayBefore ? "running" : "done";
}

function describePart({ id, part, state, createdAt, startedAt, endedAt }: RunPart): PartStatus {
  return {
    ...{ id, part, state },
    ...{ createdAt: new Date(createdAt), startedAt: date(startedAt), endedAt: date(endedAt) },
  };
}

/** One by one: a run may have more parts than a call takes arguments. */
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

refuseSurplus(RunHandle, "run", { promises: { result: "options", status: "", cancel: "" } });
