import { isDeepStrictEqual } from "node:util";
import type { RunPart, RunRecord, Stage } from "../../../src/core/run/run.ts";
import { type Body, isEnd, type TaskRecord } from "../../../src/core/task/task.ts";
import type { Op, Outcome, Verbs } from "../../../src/engine/engine.ts";
import { answer } from "../known.ts";
import { check } from "./violation.ts";

type Ask = (ops: Op[]) => Outcome[];

/** The last accepted settlement of a task's holder. */
interface Said {
  result: Body | null;
  each: boolean;
}

/** What a done task has passed on. */
interface Arrived extends Said {
  part: number[];
}

interface Seen {
  run: RunRecord;
  parts: RunPart[];
  /** As stored; only of tasks whose rows still exist. */
  tasks: Map<string, TaskRecord>;
}

/**
 * No run is lost or duplicated between stages, and joins start once. It has its own rule for what follows what, and
 * compares everything that is known about a run with it after every batch.
 */
export class RunJudge {
  readonly #said = new Map<string, Said>();
  readonly #runs = new Map<string, Seen>();
  readonly #known = new Set<string>();

  judge(ops: readonly Op[], outcomes: readonly Outcome[], ask: Ask): void {
    for (const [index, op] of ops.entries()) this.#listen(op, outcomes[index]!);
    for (const id of this.#known) this.#look(id, ask);
  }

  #listen(op: Op, outcome: Outcome): void {
    if ("refused" in outcome) return;
    if (op.verb === "claim")
      for (const { run } of answer<"claim">(outcome).tasks) if (run) this.#known.add(run.id);
    if (op.verb !== "settle" || op.settlement.kind !== "done") return;
    const { state } = answer<"settle">(outcome);
    const { result, each = false } = op.settlement;
    if (state === "done" || state === "verifying") this.#said.set(op.id, { result, each });
  }

  #look(id: string, ask: Ask): void {
    const [outcome] = ask([{ verb: "run", id, limit: 100_000 }]);
    if ("refused" in outcome!) {
      const last = this.#runs.get(id);
      check(!last || isOver(last.run), `run ${id} is gone, and was ${last?.run.state}`);
      this.#known.delete(id);
      this.#runs.delete(id);
      return;
    }
    const { run, parts } = answer<"run">(outcome!);
    const records = ask(parts.map((part): Op => ({ verb: "get", id: part.id })));
    const tasks = new Map(
      records
        .flatMap((record) => ("ok" in record ? [record.ok as Verbs["get"]["out"]] : []))
        .map((task) => [task.id, task]),
    );
    const seen = { run, parts, tasks };
    this.#runs.set(id, seen);
    this.#check(seen, ask);
  }

  #check({ run, parts, tasks }: Seen, ask: Ask): void {
    const places = parts.map(partName);
    check(new Set(places).size === places.length, `run ${run.id} was doubled: ${places.join(", ")}`);
    for (const part of parts) {
      const task = tasks.get(part.id);
      check(
        !task || task.state === part.state,
        `part ${part.id} is told as ${part.state}, and is ${task?.state}`,
      );
      check(
        task !== undefined || isEnd(part.state),
        `part ${part.id} is ${part.state}, and there is no such task`,
      );
    }
    const [first] = run.stages;
    const expected = new Map<string, Body | undefined>([
      [partName({ stage: first!.name, part: [] }), undefined],
    ]);
    const { results, underWay } = this.#follow(run, parts, expected);
    if (isOver(run) && run.state !== "done") return checkCancelled(run, parts, tasks);
    const lost = [...expected.keys()].filter((place) => !places.includes(place));
    check(lost.length === 0, `run ${run.id} lost ${lost.join(", ")}`);
    const strange = places.filter((place) => !expected.has(place));
    check(strange.length === 0, `run ${run.id} has ${strange.join(", ")} from nowhere`);
    for (const part of parts) {
      const data = expected.get(partName(part));
      const task = tasks.get(part.id);
      if (task && data !== undefined)
        check(
          String(task.data) === String(data),
          `part ${part.id} got ${String(task.data)}, not ${String(data)}`,
        );
    }
    check(
      (run.state === "done") === (underWay === 0),
      `run ${run.id} is ${run.state} with ${underWay} under way`,
    );
    if (run.state === "done") this.#checkResult(run, results, ask);
  }

  /** Stage by stage: what the done tasks must have led to. Returns what the last stages have returned. */
  #follow(
    run: RunRecord,
    parts: RunPart[],
    expected: Map<string, Body | undefined>,
  ): { results: Map<string, Arrived[]>; underWay: number } {
    const results = new Map<string, Arrived[]>();
    const unfinished = new Set<string>();
    let underWay = 0;
    for (const [index, stage] of run.stages.entries()) {
      const inputs = inputsAt(run.stages, index);
      if (stage.joins) {
        const isOver = ancestorsAt(run.stages, index).every((name) => !unfinished.has(name));
        if (isOver) expected.set(partName({ stage: stage.name, part: [] }), joinedBy(stage, inputs, results));
      } else if (Array.isArray(stage.after)) {
        for (const { part } of results.get(inputs[0]!)!) {
          const found = inputs.map((name) =>
            results.get(name)!.find((one) => isDeepStrictEqual(one.part, part)),
          );
          if (found.every((one) => one !== undefined))
            expected.set(
              partName({ stage: stage.name, part }),
              objectOf(
                inputs,
                found.map(({ result }) => textOf(result)),
              ),
            );
        }
      } else if (index > 0) {
        for (const { part, result, each } of results.get(inputs[0]!)!) {
          const items = each ? (JSON.parse(result as string) as unknown[]) : undefined;
          for (const [n, item] of items?.entries() ?? [])
            expected.set(partName({ stage: stage.name, part: [...part, n] }), JSON.stringify(item));
          if (!items) expected.set(partName({ stage: stage.name, part }), result ?? "null");
        }
      }
      const here = parts.filter((one) => one.stage === stage.name);
      const done = here.filter(({ state }) => state === "done");
      if (done.length < here.length) unfinished.add(stage.name);
      underWay += here.length - done.length;
      results.set(
        stage.name,
        done.map(({ id, part }) => ({ part, ...this.#said.get(id)! })),
      );
    }
    return { results, underWay };
  }

  #checkResult(run: RunRecord, results: Map<string, Arrived[]>, ask: Ask): void {
    const [outcome] = ask([{ verb: "ends", ids: [run.id], of: "runs" }]);
    const [end] = answer<"ends">(outcome!);
    const { result } = end as { result: Body | null };
    const followed = new Set(run.stages.flatMap((_, index) => inputsAt(run.stages, index)));
    const last = run.stages.map(({ name }) => name).filter((name) => !followed.has(name));
    const isWhole = (found: Arrived[]): boolean => found.length === 1 && found[0]!.part.length === 0;
    const [only] = last.map((name) => results.get(name)!);
    const texts = last.map((name) => {
      const found = results.get(name)!;
      return isWhole(found) ? textOf(found[0]!.result) : listOf(found);
    });
    const expected = last.length > 1 ? objectOf(last, texts) : isWhole(only!) ? only![0]!.result : texts[0];
    check(
      isDeepStrictEqual(String(result), String(expected)),
      `run ${run.id} came to ${String(result)}, not ${String(expected)}`,
    );
  }

  /** When no task is left to do. */
  checkEnds(): void {
    for (const { run } of this.#runs.values())
      check(isOver(run) || run.state === "dead", `run ${run.id} is ${run.state}, and nothing is left of it`);
  }
}

/** No task of it is left that could start. */
function checkCancelled(run: RunRecord, parts: RunPart[], tasks: Map<string, TaskRecord>): void {
  for (const { id, state } of parts) {
    const isStopping = state === "claimed" && tasks.get(id)!.cancelRequested;
    check(isEnd(state) || isStopping, `run ${run.id} is ${run.state}, and its part ${id} is ${state}`);
  }
}

function isOver({ state }: RunRecord): boolean {
  return state !== "running" && state !== "dead";
}

function partName({ stage, part }: Pick<RunPart, "stage" | "part">): string {
  return `${stage}[${part.join(".")}]`;
}

/** The names of the stages whose results a stage gets: of the one before it, unless it says otherwise. */
function inputsAt(stages: readonly Stage[], index: number): string[] {
  const { after } = stages[index]!;
  if (after !== undefined) return [after].flat();
  return index === 0 ? [] : [stages[index - 1]!.name];
}

function ancestorsAt(stages: readonly Stage[], index: number): string[] {
  const inputs = inputsAt(stages, index);
  const above = inputs.map((name) => stages.findIndex((stage) => stage.name === name));
  return [...inputs, ...above.flatMap((at) => ancestorsAt(stages, at))];
}

function joinedBy({ after }: Stage, inputs: string[], results: Map<string, Arrived[]>): string {
  const lists = inputs.map((name) => listOf(results.get(name)!));
  return Array.isArray(after) ? objectOf(inputs, lists) : lists[0]!;
}

function objectOf(names: string[], texts: string[]): string {
  return `{${names.map((name, index) => `${JSON.stringify(name)}:${texts[index]}`).join(",")}}`;
}

function listOf(brought: { part: number[]; result: Body | null }[]): string {
  const sorted = brought.toSorted((a, b) => compareParts(a.part, b.part));
  return `[${sorted.map(({ result }) => textOf(result)).join(",")}]`;
}

function compareParts(a: number[], b: number[]): number {
  const at = a.findIndex((n, i) => n !== b[i]);
  return at < 0 ? a.length - b.length : a[at]! - (b[at] ?? -1);
}

function textOf(result: Body | null): string {
  if (result === null) return "null";
  return typeof result === "string" ? result : JSON.stringify(Buffer.from(result).toString("base64"));
}
