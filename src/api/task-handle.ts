import { refuseSurplus } from "../core/input/arguments.ts";
import { type Duration, parseDuration } from "../core/time/duration.ts";
import type { ChildRecord } from "../core/handler/children.ts";
import type { LogLine } from "../core/handler/attempt-log.ts";
import { DibsError, isDibsError } from "../core/errors/errors.ts";
import { decodeBody, encodeJson } from "../core/input/json.ts";
import type { TaskChange } from "../core/task/change.ts";
import { checkNames, checkObject } from "../core/input/options.ts";
import type { Port } from "../core/port.ts";
import {
  type Attempt,
  type Body,
  JSON_TYPE,
  type TaskEnd,
  type TaskRecord,
  type TaskState,
} from "../core/task/task.ts";
import { parseDelay } from "./add-options.ts";

/** How to wait for a result. */
export interface WaitOptions {
  timeout?: Duration | undefined;
  signal?: AbortSignal | undefined;
}

export function parseWait(options: WaitOptions): {
  timeout: number | undefined;
  signal: AbortSignal | undefined;
} {
  checkNames(options, ["timeout", "signal"], "result");
  const timeout = options.timeout === undefined ? undefined : parseDuration(options.timeout, "timeout");
  return { timeout, signal: options.signal };
}

/** What to change of a task. Fields that are not given stay. */
export interface UpdateOptions {
  priority?: number | undefined;
  /** The task is due after this time; 0: now. */
  delay?: Duration | undefined;
  /** The task is due at this time; instead of `delay`. */
  runAt?: Date | undefined;
  /** A handle that `queue.add()` returned checks it with the queue's schema. */
  data?: unknown;
}

export interface RunAgainOptions {
  /** A dead task runs without the steps that it has stored. */
  fresh?: boolean | undefined;
}

/** Checks a payload and returns it as JSON. */
type EncodePayload = (data: unknown) => string | Promise<string>;

const encodePlain: EncodePayload = (data) => encodeJson(data, "data");

/** A task, for its producer or any caller that has its id. */
export class TaskHandle<Result = unknown> {
  readonly id: string;
  readonly #port: Port;
  readonly #encode: EncodePayload;

  constructor(port: Port, id: string, encode: EncodePayload = encodePlain) {
    this.#port = port;
    this.id = id;
    this.#encode = encode;
  }

  /** Resolves with the result when the task is done; throws TASK_DEAD, TASK_CANCELLED, TASK_EXPIRED or TIMEOUT. */
  async result(options: WaitOptions = {}): Promise<Result> {
    return resultOf(await this.#port.end(this.id, parseWait(options))) as Result;
  }

  async info(): Promise<TaskInfo> {
    return describe(await this.#port.task(this.id));
  }

  /** A page of the tasks that it has spawned, in the order of the spawns. Pass `next` as `after` for the next one. */
  async children(options: ChildrenOptions = {}): Promise<{ children: ChildInfo[]; next: number | null }> {
    checkNames(options, ["limit", "after"], "children");
    const { children, next } = await this.#port.children(this.id, options);
    const shown = children.map(({ createdAt, endedAt, ...child }) => {
      return { ...child, createdAt: new Date(createdAt), endedAt: dateOf(endedAt) };
    });
    return { children: shown, next };
  }

  /** The ledger: one row per attempt, the first one first. */
  async history(): Promise<AttemptInfo[]> {
    const rows = await this.#port.history(this.id);
    return rows.map((row) => ({
      ...row,
      startedAt: new Date(row.startedAt),
      endedAt: new Date(row.endedAt),
      log: describeLog(row.log),
    }));
  }

  /**
   * Sends a signal to a task that waits for it with `task.waitFor(name)`, now or later. Resolves with whether it was
   * stored. It is not stored if the task has ended, has already received a signal of that name, or has stopped waiting
   * for it.
   */
  async signal(name: string, data?: unknown): Promise<boolean> {
    return this.#port.signal(
      this.id,
      name,
      data === undefined ? null : encodeJson(data, "the signal's data"),
    );
  }

  /**
   * Ends the task at once if no worker has it. If a worker has it, asks the worker to stop; the task then ends
   * cancelled, whatever its handler returns.
   */
  async cancel(): Promise<TaskState> {
    return this.#port.cancel(this.id);
  }

  /**
   * Changes the priority, due time or data of a task that no worker has started, or that waits for another attempt.
   * Throws WRONG_STATE if the task is claimed, parked or verifying, or has ended. Resolves with its state.
   */
  async update(options: UpdateOptions): Promise<TaskState> {
    const change = await this.#updateFrom(options);
    return (await this.#port.change(this.id, change)).state;
  }

  async #updateFrom(options: UpdateOptions): Promise<TaskChange> {
    const { data, ...rest } = parseUpdate(options, () => this.#port.clock.read().wall);
    return { ...rest, ...(data !== undefined && { data: await this.#encode(data) }) };
  }

  /** Makes a scheduled task ready now. Does nothing if the task is ready. Throws WRONG_STATE as `update` does. */
  async promote(): Promise<TaskState> {
    return (await this.#port.change(this.id, { kind: "promote" })).state;
  }

  /**
   * Runs a task again that is done, dead, cancelled or expired: the same id, at the end of the line, with all attempts.
   * Its ledger stays. Throws WRONG_STATE if it has not ended, or is a finished part of a run.
   */
  async runAgain(options: RunAgainOptions = {}): Promise<TaskState> {
    checkNames(options, ["fresh"], "runAgain");
    const { fresh } = options;
    const change = { kind: "again", ...(fresh !== undefined && { fresh }) } as const;
    return (await this.#port.change(this.id, change)).state;
  }
}

/** The change that users describe; `data` is not encoded yet. */
export function parseUpdate(
  options: UpdateOptions,
  now: () => number,
): { kind: "update"; priority?: number; delay?: number; data?: unknown } {
  checkObject(options, "The options of update");
  checkNames(options, ["priority", "delay", "runAt", "data"], "update");
  const { priority, data } = options;
  const delay = parseDelay(options, now);
  return {
    kind: "update",
    ...(priority !== undefined && { priority }),
    ...(delay !== undefined && { delay }),
    ...(data !== undefined && { data }),
  };
}

/** A task as `add` returns it. */
export class AddedTaskHandle<Result = unknown> extends TaskHandle<Result> {
  readonly queue: string;
  /** The idempotencyKey, or the key of `unique`, was in use: this is the task that has it, and nothing was added. */
  readonly existing: boolean;

  constructor(
    port: Port,
    added: { id: string; queue: string; existing: boolean },
    encode: EncodePayload = encodePlain,
  ) {
    super(port, added.id, encode);
    this.queue = added.queue;
    this.existing = added.existing;
  }
}

/** A child as `task.spawn` returns it. */
export class ChildHandle<Result = unknown> extends AddedTaskHandle<Result> {
  /** Null: told apart by the order of the spawns. */
  readonly name: string | null;

  constructor(
    port: Port,
    spawned: { id: string; queue: string; existing: boolean },
    name: string | null,
    encode: EncodePayload = encodePlain,
  ) {
    super(port, spawned, encode);
    this.name = name;
  }
}

/** A page of the children of a task. */
export interface ChildrenOptions {
  /** Up to 1,000, which is the default. */
  limit?: number | undefined;
  /** The `next` of the previous page. */
  after?: number | undefined;
}

/** A child of a task. Times are the store's. */
export interface ChildInfo extends Omit<ChildRecord, "createdAt" | "endedAt"> {
  createdAt: Date;
  endedAt: Date | null;
}

/** All fields of a task. Times are the store's. */
export interface TaskInfo extends Omit<TaskRecord, "data" | "result" | "log" | TimeField> {
  data: unknown;
  result: unknown;
  createdAt: Date;
  dueAt: Date | null;
  expiresAt: Date | null;
  startedAt: Date | null;
  endedAt: Date | null;
  /** What the attempt in progress has logged so far; empty in lists. The lines of earlier attempts: `history()`. */
  log: LogLineInfo[];
}

/** A line that a handler wrote with `task.log()`. */
export interface LogLineInfo {
  at: Date;
  text: string;
}

function describeLog(log: LogLine[] = []): LogLineInfo[] {
  return log.map(({ at, text }) => ({ at: new Date(at), text }));
}

type TimeField = "createdAt" | "dueAt" | "expiresAt" | "startedAt" | "endedAt";

export interface AttemptInfo extends Omit<Attempt, "startedAt" | "endedAt" | "log"> {
  startedAt: Date;
  endedAt: Date;
  /** What its handler logged, oldest first. */
  log: LogLineInfo[];
}

function dateOf(time: number | null): Date | null {
  return time === null ? null : new Date(time);
}

export function describe(record: TaskRecord): TaskInfo {
  const { truncated } = record;
  return {
    ...record,
    // A shortened JSON text is not valid JSON, so it stays text.
    data: truncated?.data === undefined ? decodeBody(record.data, record.contentType) : record.data,
    result: truncated?.result === undefined ? (resultFrom(record.result) ?? null) : record.result,
    createdAt: new Date(record.createdAt),
    dueAt: dateOf(record.dueAt),
    expiresAt: dateOf(record.expiresAt),
    startedAt: dateOf(record.startedAt),
    endedAt: dateOf(record.endedAt),
    log: describeLog(record.log),
  };
}

function resultOf(end: TaskEnd): unknown {
  switch (end.state) {
    case "done":
      return resultFrom(end.result);
    case "dead": {
      const { name, message } = end.error!;
      const cause = Object.assign(new Error(message), { name, stack: end.error!.stack ?? undefined });
      throw new DibsError("TASK_DEAD", `Task ${end.id} is dead: ${name}: ${message}`, { cause });
    }
    case "cancelled":
      throw new DibsError("TASK_CANCELLED", `Task ${end.id} was cancelled.`);
    case "expired":
      throw new DibsError("TASK_EXPIRED", `Task ${end.id} expired: no worker had started it within its ttl.`);
  }
}

/** Like resultOf, but for a run: its errors name the run. */
export function runResultOf(end: TaskEnd): unknown {
  try {
    return resultOf(end);
  } catch (error) {
    if (isDibsError(error)) error.message = error.message.replace(/^Task /, "Run ");
    throw error;
  }
}

/** What a handler returned. */
export function resultFrom(result: Body | null): unknown {
  return result === null ? undefined : decodeBody(result, JSON_TYPE);
}

refuseSurplus(TaskHandle, "task", {
  promises: {
    result: "options",
    info: "",
    children: "options",
    history: "",
    signal: "name, data",
    cancel: "",
    update: "options",
    promote: "",
    runAgain: "options",
  },
});
