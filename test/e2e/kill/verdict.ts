import { expect } from "vitest";
import { NO_DEPTH } from "../../../src/core/task/task.ts";
import type { Dibs, TaskInfo, TaskState } from "../../../src/index.ts";
import type { Entry } from "../programs/storm-log.ts";

type Of<Kind extends Entry["kind"]> = Entry & { kind: Kind };

export interface Findings {
  tasks: number;
  acked: number;
  /** Acks that were committed, but whose worker was killed before it could log that. */
  ackedUnheard: number;
  refused: number;
  lostAttempts: number;
  /** Tasks that exist although no process learned that they were added. */
  unheard: number;
}

/** Compares what the processes learned with what the store contains. */
export async function judge(dibs: Dibs, entries: Entry[]): Promise<Findings> {
  const tasks = new Map((await listAll(dibs, "work", "done")).map((task) => [task.id, task]));
  const added = ofKind(entries, "added");
  const acked = ofKind(entries, "acked");
  const lost = ofKind(entries, "lost");
  const began = ofKind(entries, "began");

  nothingIsLost(tasks, added);
  nothingIsDoubled(tasks, added);
  const unheard = nothingIsMadeUp(tasks, added, ofKind(entries, "adding"));
  noClaimHasTwoHolders(began);
  oneAckCounts(tasks, acked);
  refusedAcksHaveNoEffect(tasks, lost);
  await acksCommitWithTheirAdds(dibs, tasks);
  await countersAreRight(dibs, tasks.size);
  const starts = Map.groupBy(began, ({ id }) => id);
  groupsRunInOrder(tasks, starts);

  let lostAttempts = 0;
  for (const task of tasks.values())
    lostAttempts += await ledgerIsSound(dibs, task, starts.get(task.id) ?? []);
  return {
    tasks: tasks.size,
    acked: acked.length,
    ackedUnheard: tasks.size - acked.length,
    refused: lost.length,
    lostAttempts,
    unheard,
  };
}

function nothingIsLost(tasks: Map<string, TaskInfo>, added: Of<"added">[]): void {
  const missing = added.filter((entry) => {
    const task = tasks.get(entry.id);
    return task?.idempotencyKey !== entry.key || nameOf(task.data as Named) !== nameOf(entry);
  });
  expect(missing, "tasks whose add had resolved, and that are not done").toEqual([]);
}

function nothingIsDoubled(tasks: Map<string, TaskInfo>, added: Of<"added">[]): void {
  const names = new Set([...tasks.values()].map(({ data }) => nameOf(data as Named)));
  expect(names.size, "tasks that were added").toBe(tasks.size);
  const answers = new Map<string, string>();
  for (const entry of added) {
    const [name, { id }] = [nameOf(entry), entry];
    expect(answers.get(name) ?? id, `the task ${name}, told twice`).toBe(id);
    answers.set(name, id);
  }
}

/** Each task was added under its key, or its add was begun. Returns the number of which no process learned. */
function nothingIsMadeUp(tasks: Map<string, TaskInfo>, added: Of<"added">[], adding: Of<"adding">[]): number {
  const told = new Set(added.map(nameOf));
  const begun = new Set(adding.map(nameOf));
  const unheard = [...tasks.values()].filter(({ data }) => !told.has(nameOf(data as Named)));
  const madeUp = unheard.filter(
    ({ data, idempotencyKey }) => idempotencyKey === null && !begun.has(nameOf(data as Named)),
  );
  expect(madeUp, "tasks that no process has added").toEqual([]);
  return unheard.length;
}

interface Named {
  by: string;
  n: number;
}

function nameOf({ by, n }: Named): string {
  return `${by}-${n}`;
}

function noClaimHasTwoHolders(began: Of<"began">[]): void {
  const seen = new Set<number>();
  for (const { id, fence } of began) {
    expect(seen.has(fence), `fence ${fence} of task ${id} was given out twice`).toBe(false);
    seen.add(fence);
  }
}

function oneAckCounts(tasks: Map<string, TaskInfo>, acked: Of<"acked">[]): void {
  const seen = new Set<string>();
  for (const { id, fence } of acked) {
    expect(seen.has(id), `task ${id} was acked twice`).toBe(false);
    seen.add(id);
    expect(tasks.get(id)?.result, `the result of task ${id}`).toEqual({ id, fence });
  }
}

function refusedAcksHaveNoEffect(tasks: Map<string, TaskInfo>, lost: Of<"lost">[]): void {
  for (const { id, fence } of lost) {
    expect(
      tasks.get(id)?.result,
      `the result of task ${id}, whose ack with fence ${fence} was refused`,
    ).not.toEqual({
      id,
      fence,
    });
  }
}

async function acksCommitWithTheirAdds(dibs: Dibs, tasks: Map<string, TaskInfo>): Promise<void> {
  const next = (await listAll(dibs, "next", "ready")).map(
    (task) => task.data as { of: string; fence: number },
  );
  expect(next.length, "tasks that acks added").toBe(tasks.size);
  for (const { of, fence } of next) expect(tasks.get(of)?.result).toEqual({ id: of, fence });
}

async function countersAreRight(dibs: Dibs, count: number): Promise<void> {
  expect((await dibs.queue("work").stats()).depth).toEqual({ ...NO_DEPTH, done: count });
  expect((await dibs.queue("next").stats()).depth.ready).toBe(count);
}

/** Fences grow with every claim: in a group, each task's last fence is below the next task's first. */
function groupsRunInOrder(tasks: Map<string, TaskInfo>, starts: Map<string, Of<"began">[]>): void {
  const groups = Map.groupBy(
    [...tasks.values()].filter((task) => task.groupKey !== null),
    (task) => task.groupKey!,
  );
  for (const [group, members] of groups) {
    let before = 0;
    for (const task of members.sort((a, b) => numberOf(a) - numberOf(b))) {
      const own = (starts.get(task.id) ?? []).map(({ fence }) => fence);
      if (own.length === 0) continue;
      expect(Math.min(...own), `group ${group}: task ${numberOf(task)} ran before its turn`).toBeGreaterThan(
        before,
      );
      before = Math.max(...own);
    }
  }
}

function numberOf(task: TaskInfo): number {
  return (task.data as { n: number }).n;
}

async function ledgerIsSound(dibs: Dibs, task: TaskInfo, starts: Of<"began">[]): Promise<number> {
  const ledger = await dibs.task(task.id).history();
  const last = ledger.at(-1)!;
  const { fence } = task.result as { fence: number };
  expect(last, `the last attempt at task ${task.id}`).toMatchObject({ outcome: "done", fence });
  for (const [index, row] of ledger.entries()) {
    const before = ledger[index - 1];
    if (before) {
      expect(row.fence, `fences of task ${task.id}`).toBeGreaterThan(before.fence);
      expect(row.startedAt.getTime()).toBeGreaterThanOrEqual(before.endedAt.getTime());
      expect(before.outcome, `an attempt at task ${task.id} before its last`).not.toBe("done");
    }
  }
  const known = new Set(ledger.map((row) => row.fence));
  for (const { fence } of starts) {
    expect(known.has(fence), `a start with fence ${fence} of task ${task.id}, unknown to its ledger`).toBe(
      true,
    );
  }
  return ledger.filter((row) => row.outcome === "lost").length;
}

function ofKind<Kind extends Entry["kind"]>(entries: Entry[], kind: Kind): Of<Kind>[] {
  return entries.filter((entry): entry is Of<Kind> => entry.kind === kind);
}

async function listAll(dibs: Dibs, queue: string, state: TaskState): Promise<TaskInfo[]> {
  const all: TaskInfo[] = [];
  for (let after: string | undefined; ;) {
    const page = await dibs.queue(queue).tasks({ state, after, limit: 1_000 });
    all.push(...page.tasks);
    if (page.next === null) return all;
    after = page.next;
  }
}
