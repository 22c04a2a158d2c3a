import { type Duration, parseDuration } from "../time/duration.ts";
import { invalid } from "../errors/errors.ts";
import { KEY_AFTER_END } from "./idempotency.ts";
import { LIMITS } from "../input/limits.ts";
import { checkNames, checkObject, checkText } from "../input/options.ts";
import { show } from "../errors/show.ts";
import { isEnd, type NewTask, type TaskState } from "./task.ts";

/**
 * `unique` of an add: at most one task with a key at a time. It uses the table of idempotency keys, under a name that no
 * idempotency key can have, so that claims and settlements of all tasks stay as they are. What differs is when a key is
 * free again: all engines ask `holdsKey`, and a new task takes a free key over from the task that had it.
 */
export interface Unique {
  key: string;
  /**
   * How long a task keeps its key. `"waiting"`: until a worker starts it for the first time. `"pending"`: until it ends.
   * A number: this many milliseconds after it was added.
   */
  while: "waiting" | "pending" | number;
  /**
   * What an add does while another task has the key. `"keep"`: nothing. `"replace"`: gives that task its payload.
   * `"debounce"`: the same, and the delay of that task begins again.
   */
  on: "keep" | "replace" | "debounce";
}

/** As users give it. */
export interface UniqueOptions {
  /** Scoped to the queue. */
  key: string;
  while?: "waiting" | "pending" | Duration | undefined;
  on?: "keep" | "replace" | "debounce" | undefined;
}

export function parseUnique(given: UniqueOptions): Unique {
  checkObject(given, "unique");
  checkNames(given, ["key", "while", "on"], "unique");
  const { key, on = "keep" } = given;
  const during = given.while ?? (on === "keep" ? "pending" : "waiting");
  const isState = during === "waiting" || during === "pending";
  return { key, while: isState ? during : parseDuration(during, "while"), on };
}

/** Checks what a client sends. */
export function checkUnique(unique: Unique, { delay, idempotencyKey }: Partial<NewTask>): void {
  checkObject(unique, "unique");
  checkNames(unique, ["key", "while", "on"], "unique");
  checkText(unique.key, "The key of unique", LIMITS.idempotencyKey);
  const { while: during, on } = unique;
  if (idempotencyKey !== undefined)
    throw invalid("Give idempotencyKey or unique, not both: a task has one key.");
  if (on !== "keep" && on !== "replace" && on !== "debounce")
    throw invalid(`on of unique is "keep", "replace" or "debounce"; got ${show(on)}.`);
  const isState = during === "waiting" || during === "pending";
  if (!isState && !(Number.isInteger(during) && during >= 1 && during <= KEY_AFTER_END))
    throw invalid(`while of unique is "waiting", "pending" or a duration of up to 1d; got ${show(during)}.`);
  // A worker that has started the task has read its payload, so it is too late to replace it.
  if (on !== "keep" && during !== "waiting")
    throw invalid(`unique with on: "${on}" needs while: "waiting"; got ${show(during)}.`);
  if (on === "debounce" && !delay)
    throw invalid('unique with on: "debounce" needs a delay, which begins again with every add.');
}

/** A control character, which keys of users cannot have. */
const MARK = "\u0001";

export function storedUniqueKey(key: string): string {
  return MARK + key;
}

/** The addition as the engines get it: with the stored name of its key. */
export function withStoredKey<Task extends { unique?: Unique; idempotencyKey?: string }>(task: Task): Task {
  return task.unique === undefined ? task : { ...task, idempotencyKey: storedUniqueKey(task.unique.key) };
}

/** A stored key as it is shown to people. */
export function shownKey(stored: string | null): { idempotencyKey: string | null; uniqueKey?: string } {
  if (stored === null || !stored.startsWith(MARK)) return { idempotencyKey: stored };
  return { idempotencyKey: null, uniqueKey: stored.slice(MARK.length) };
}

/**
 * Whether the task that has the key still keeps it, so that a new task cannot take it over. `failures`: its failed
 * attempts.
 */
export function holdsKey(
  unique: Unique,
  holder: { state: TaskState; failures: number; createdAt: number },
  now: number,
): boolean {
  if (unique.while === "pending") return !isEnd(holder.state);
  if (unique.while === "waiting") return isNotStarted(holder);
  return holder.createdAt + unique.while > now;
}

function isNotStarted({ state, failures }: { state: TaskState; failures: number }): boolean {
  return failures === 0 && (state === "ready" || state === "waiting" || state === "scheduled");
}
