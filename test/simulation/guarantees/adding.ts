import { isDeepStrictEqual } from "node:util";
import type { ErrorCode } from "../../../src/core/errors/errors.ts";
import { type AddedTask, JSON_TYPE, type NewTask } from "../../../src/core/task/task.ts";
import type { Books, Entry } from "./books.ts";
import type { Turn } from "./turn.ts";
import { check } from "./violation.ts";

/** The code with which adding these must be refused; undefined: it must not be refused. */
export function refusalOfAdds(turn: Turn, tasks: NewTask[]): ErrorCode | undefined {
  const { books } = turn;
  const isLarge = ({ data, queue }: NewTask) =>
    Buffer.from(data as string).byteLength > books.policy(queue).maxPayload;
  if (tasks.some(isLarge)) return "PAYLOAD_TOO_LARGE";
  for (const queue of new Set(tasks.map((task) => task.queue))) {
    const { maxDepth } = books.policy(queue);
    const keys = new Set<string>();
    const fresh = tasks.filter((task) => task.queue === queue && isFresh(books, task, keys));
    const waiting = [...turn.before.tasks.values()].filter(
      (task) => task.queue === queue && ["ready", "waiting", "scheduled"].includes(task.state),
    );
    if (maxDepth !== null && fresh.length > 0 && waiting.length + fresh.length > maxDepth)
      return "QUEUE_FULL";
  }
  return undefined;
}

function isFresh(books: Books, { queue, idempotencyKey }: NewTask, keys: Set<string>): boolean {
  if (idempotencyKey === undefined) return true;
  if (keys.has(idempotencyKey) || books.keyHolder(queue, idempotencyKey)) return false;
  keys.add(idempotencyKey);
  return true;
}

/** Same key, same task. Everything else exists now, as it was given. */
export function checkAdded(turn: Turn, tasks: NewTask[], added: AddedTask[] | null): void {
  const { books } = turn;
  // Ids sort in the order of arrival.
  const fresh = turn.left.filter((change) => change.before === undefined);
  for (const [index, task] of tasks.entries()) {
    const answer = added?.[index];
    const taken =
      task.idempotencyKey === undefined ? undefined : books.keyHolder(task.queue, task.idempotencyKey);
    const id = taken?.id ?? fresh.shift()?.id;
    check(id !== undefined, () => `task ${index} of the add is not there, and nothing has its key`);
    books.queue(task.queue);
    if (!taken) enter(turn, id, task);
    if (!answer) continue;
    const state = turn.after.tasks.get(id)?.state ?? taken?.end?.state;
    const expected = { id, queue: task.queue, state, existing: taken !== undefined };
    check(
      isDeepStrictEqual(answer, expected),
      () => `add answered ${JSON.stringify(answer)}; it should be ${JSON.stringify(expected)}`,
    );
  }
}

function enter(turn: Turn, id: string, task: NewTask): void {
  const { books } = turn;
  check(!books.entries.has(id) && !books.gone.has(id), () => `the id ${id} was given twice`);
  const ttl = task.ttl ?? books.policy(task.queue).ttl;
  const number = ++books.arrivals;
  const entry: Entry = {
    id,
    task,
    createdAt: books.now,
    expiresAt: ttl === null ? null : books.now + ttl,
    order: number,
    arrival: number,
    failures: 0,
    failedBy: [],
    holder: null,
    pending: null,
    feedback: undefined,
    lastFence: 0,
    rows: [],
    blocksGroup: false,
    keptUntil: null,
    steps: new Map(),
  };
  books.entries.set(id, entry);
  const queue = books.queue(task.queue);
  queue.flow.push({ at: books.now, what: "added" });
  if (task.idempotencyKey !== undefined) queue.keys.set(task.idempotencyKey, { id, end: null });
  const { after } = turn.take(id)!;
  const expected = {
    ...after,
    state: task.delay
      ? "scheduled"
      : task.groupKey !== undefined && after!.state === "waiting"
        ? "waiting"
        : "ready",
    queue: task.queue,
    data: task.data,
    contentType: task.contentType ?? JSON_TYPE,
    headers: task.headers ?? {},
    priority: task.priority ?? 0,
    groupKey: task.groupKey ?? null,
    idempotencyKey: task.idempotencyKey ?? null,
    attempt: 1,
    maxAttempts: books.maxAttempts(entry),
    createdAt: books.now,
    dueAt: task.delay ? books.now + task.delay : null,
    expiresAt: entry.expiresAt,
    cancelRequested: false,
    result: null,
    error: null,
  };
  check(
    isDeepStrictEqual(after, expected),
    () => `the task added is ${JSON.stringify(after)}; it should be ${JSON.stringify(expected)}`,
  );
}
