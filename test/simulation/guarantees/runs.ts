import { isDeepStrictEqual } from "node:util";
import type { RunPart, RunRecord, Stage } from "../../../src/core/run.ts";
import { type Body, isEnd, type TaskRecord } from "../../../src/core/task.ts";
import type { Op, Outcome, Verbs } from "../../../src/engine/engine.ts";
import { answer } from "../known.ts";
import { check } from "./violation.ts";

type Ask = (ops: Op[]) => Outcome[];

/** The last accepted settlement of a task's holder. */
interface Said {
  result: Body | null;
  each: boolean;
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
    const { arrived, underWay } = this.#follow(run, parts, expected);
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
    if (run.state === "done") this.#checkResult(run, arrived, ask);
  }

  /** Stage by stage: what the done tasks must have led to. Returns what has arrived at the end. */
  #follow(
    run: RunRecord,
    parts: RunPart[],
    expected: Map<string, Body | undefined>,
  ): { arrived: { part: number[]; result: Body | null }[]; underWay: number } {
    let waiting: { part: number[]; result: Body | null }[] = [];
    let wasParted = false;
    let underWay = 0;
    for (const [index, stage] of run.stages.entries()) {
      if (stage.joins && underWay === 0 && index > 0) {
        expected.set(partName({ stage: stage.name, part: [] }), listOf(waiting));
        waiting = [];
        wasParted = false;
      }
      const next: Stage | undefined = run.stages[index + 1];
      for (const part of parts.filter((one) => one.stage === stage.name)) {
        if (part.state !== "done") {
          underWay++;
          continue;
        }
        const said = this.#said.get(part.id)!;
        if (said.each) {
          wasParted = true;
          const items = JSON.parse(said.result as string) as unknown[];
          for (const [n, item] of items.entries())
            expected.set(partName({ stage: next!.name, part: [...part.part, n] }), JSON.stringify(item));
        } else if (next && !next.joins) {
          expected.set(partName({ stage: next.name, part: part.part }), said.result ?? "null");
        } else waiting.push({ part: part.part, result: said.result });
      }
    }
    this.#parted.set(run.id, wasParted);
    return { arrived: waiting, underWay };
  }

  /** Whether a run ended in parts. */
  readonly #parted = new Map<string, boolean>();

  #checkResult(run: RunRecord, arrived: { part: number[]; result: Body | null }[], ask: Ask): void {
    const [outcome] = ask([{ verb: "ends", ids: [run.id], of: "runs" }]);
    const [end] = answer<"ends">(outcome!);
    const { result } = end as { result: Body | null };
    const expected = this.#parted.get(run.id) ? listOf(arrived) : arrived[0]!.result;
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
