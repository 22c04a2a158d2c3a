import { isDeepStrictEqual } from "node:util";
import type { ChildEnd } from "../../../src/core/handler/children.ts";
import { awaitedBy, isChildrenSignal } from "../../../src/core/handler/children-signal.ts";
import { isEnd, type TaskRecord } from "../../../src/core/task/task.ts";
import type { Op, Outcome } from "../../../src/engine/engine.ts";
import { answer } from "../known.ts";
import { check } from "./violation.ts";

type Ask = (ops: Op[]) => Outcome[];

/**
 * A spawn makes each child once, a parent is woken by the last child that it waits for, and a cancelled parent leaves
 * no child behind. Compared with all that is known about parents after every batch.
 */
export class FamilyJudge {
  readonly #parents = new Set<string>();
  /** By parent and name: what the last spawn answered. */
  readonly #spawned = new Map<string, Map<string, string>>();
  /** Tasks that may have run again: they no longer end with their parent. */
  readonly #revived = new Set<string>();

  judge(ops: readonly Op[], outcomes: readonly Outcome[], ask: Ask): void {
    for (const [index, op] of ops.entries()) this.#listen(op, outcomes[index]!);
    for (const id of this.#parents) this.#look(id, ops, ask);
  }

  #listen(op: Op, outcome: Outcome): void {
    if ("refused" in outcome) return;
    if (op.verb === "change" && op.change.kind === "again") this.#revived.add(op.id);
    if (op.verb !== "spawn") return;
    this.#parents.add(op.id);
    const known = this.#spawned.get(op.id) ?? new Map<string, string>();
    this.#spawned.set(op.id, known);
    for (const [i, { id, existing }] of answer<"spawn">(outcome).entries()) {
      const { name } = op.children[i]!;
      if (existing)
        check(known.get(name) === id, `${op.id} got ${id} as ${name}, and had ${known.get(name)}`);
      known.set(name, id);
    }
  }

  #look(id: string, ops: readonly Op[], ask: Ask): void {
    const [found, page] = ask([
      { verb: "get", id },
      { verb: "children", id, limit: 1_000, ends: true },
    ]);
    if ("refused" in found!) {
      this.#parents.delete(id);
      return;
    }
    const parent = answer<"get">(found!);
    const children = answer<"children">(page!).children as ChildEnd[];
    checkNumbers(id, children);
    const tasks = ask(children.map((child): Op => ({ verb: "get", id: child.id })));
    const redriven = new Set(ops.flatMap((op) => (op.verb === "redrive" ? op.queue : [])));
    for (const [i, child] of children.entries()) {
      const task = "ok" in tasks[i]! ? answer<"get">(tasks[i]) : undefined;
      if (redriven.has(child.queue)) this.#revived.add(child.id);
      checkChild(parent, child, task);
      if (!this.#revived.has(child.id)) checkAbandoned(parent, child, task);
    }
    checkWaiting(parent, children);
    const pending = children.filter(({ state }) => !isEnd(state)).length;
    const counts = children.length === 0 ? undefined : { total: children.length, pending };
    check(
      isDeepStrictEqual(parent.children, counts),
      `${id} shows ${JSON.stringify(parent.children)}, and has ${JSON.stringify(counts)}`,
    );
  }
}

function checkNumbers(id: string, children: ChildEnd[]): void {
  check(
    children.every(({ n }, i) => n === i + 1),
    `the children of ${id} have the numbers ${children.map(({ n }) => n).join()}`,
  );
  const names = children.flatMap(({ name }) => name ?? []);
  check(new Set(names).size === names.length, `${id} has children of the same name: ${names.join()}`);
}

function checkChild(parent: TaskRecord, child: ChildEnd, task: TaskRecord | undefined): void {
  if (!task) {
    check(isEnd(child.state), `child ${child.id} is ${child.state}, and there is no such task`);
    return;
  }
  check(task.state === child.state, `child ${child.id} is told as ${child.state}, and is ${task.state}`);
  check(task.parent?.id === parent.id, `child ${child.id} has the parent ${task.parent?.id}`);
  check(String(task.result) === String(child.result), `child ${child.id} has two results`);
  check(task.error?.message === child.error?.message, `child ${child.id} has two errors`);
}

function checkAbandoned(parent: TaskRecord, child: ChildEnd, task: TaskRecord | undefined): void {
  const isOver = parent.state === "cancelled" || parent.state === "expired";
  if (!isOver && !parent.cancelRequested) return;
  check(
    isEnd(child.state) || task!.cancelRequested,
    `child ${child.id} goes on, and its parent ${parent.id} is ${parent.state}`,
  );
}

function checkWaiting({ id, state, waitsFor }: TaskRecord, children: ChildEnd[]): void {
  if (state !== "parked" || !isChildrenSignal(waitsFor)) return;
  const awaited = awaitedBy(waitsFor);
  const pending = children.filter((child) => !isEnd(child.state) && awaited.has(child.n));
  check(pending.length > 0, `${id} waits for ${waitsFor}, and all of these have ended`);
}
