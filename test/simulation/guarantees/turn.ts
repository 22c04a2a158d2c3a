import type { TaskRecord, TaskState } from "../../../src/core/task/task.ts";
import type { Books, Entry } from "./books.ts";
import type { Snapshot } from "./snapshot.ts";
import { check } from "./violation.ts";

export interface Change {
  id: string;
  before: TaskRecord | undefined;
  after: TaskRecord | undefined;
}

/** One operation and what it changed. Each rule takes the changes that it explains; none may be left over. */
export class Turn {
  readonly books: Books;
  readonly before: Snapshot;
  readonly after: Snapshot;
  /** Groups whose head ended or was removed by this operation. */
  readonly freedGroups = new Set<string>();
  readonly #changes = new Map<string, Change>();

  constructor(books: Books, before: Snapshot, after: Snapshot) {
    this.books = books;
    this.before = before;
    this.after = after;
    for (const [id, record] of after.tasks) {
      const was = before.tasks.get(id);
      if (!was || !isSame(was, record)) this.#changes.set(id, { id, before: was, after: record });
    }
    for (const [id, record] of before.tasks) {
      if (!after.tasks.has(id)) this.#changes.set(id, { id, before: record, after: undefined });
    }
  }

  /** The changes that no rule has explained yet, oldest task first. */
  get left(): Change[] {
    return [...this.#changes.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  take(id: string): Change | undefined {
    const change = this.#changes.get(id);
    this.#changes.delete(id);
    return change;
  }

  freed(entry: Entry): void {
    if (!entry.blocksGroup) return;
    entry.blocksGroup = false;
    this.freedGroups.add(groupOf(entry));
  }

  /** Takes the change of a task that must now be in this state. */
  expect(entry: Entry, state: TaskState, dueAt: number | null = null): TaskRecord {
    this.take(entry.id);
    const record = this.after.tasks.get(entry.id);
    check(record !== undefined, () => `task ${entry.id} is gone; it should be ${state}`);
    check(record.state === state, () => `task ${entry.id} is ${record.state}; it should be ${state}`);
    check(
      record.dueAt === dueAt,
      () => `task ${entry.id} is due at ${record.dueAt}; it should be at ${dueAt}`,
    );
    return record;
  }
}

/** Field by field: this runs for every task after every operation. */
function isSame(a: TaskRecord, b: TaskRecord): boolean {
  for (const name of Object.keys(b) as (keyof TaskRecord)[]) {
    if (a[name] === b[name]) continue;
    if (typeof a[name] !== "object" || JSON.stringify(a[name]) !== JSON.stringify(b[name])) return false;
  }
  return true;
}

/** A group belongs to its queue. */
export function groupOf({ task }: Entry): string {
  return `${task.queue} ${task.groupKey}`;
}
