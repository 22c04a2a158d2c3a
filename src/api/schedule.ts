import { refuseSurplus } from "../core/input/arguments.ts";
import type { Duration } from "../core/time/duration.ts";
import { invalid } from "../core/errors/errors.ts";
import type { Payload } from "../core/input/json-type.ts";
import { checkNames, checkObject } from "../core/input/options.ts";
import type { Port } from "../core/port.ts";
import {
  checkScheduleName,
  type Missed,
  noSuchSchedule,
  parseTiming,
  type ScheduleDefinition,
  type ScheduledTask,
  type ScheduleRecord,
} from "../core/time/schedule.ts";
import { show } from "../core/errors/show.ts";
import type { AddTarget } from "../worker/pending-additions.ts";
import { type AddOptions, parseAddOptions, type PartOptions } from "./add-options.ts";
import { checkDefinition, type QueueDefinition } from "./definition.ts";
import { type Owner, Queue } from "./queue.ts";
import { CallOrder } from "./call-order.ts";
import { AddedTaskHandle } from "./task-handle.ts";

/** When a schedule fires: a cron pattern in a time zone, or an interval from its first definition on. */
export type ScheduleTimes = (
  | {
      /** Minute, hour, day, month, weekday. With six fields, seconds come first. */
      cron: string;
      /** The time zone of the pattern; default UTC. */
      tz?: string | undefined;
      every?: undefined;
    }
  | {
      /** At least one second. */
      every: Duration;
      cron?: undefined;
      tz?: undefined;
    }
) & {
  /**
   * What to do about firings that were missed because no process was running: drop them, add one task for all ("once",
   * the default), or one task for each.
   */
  missed?: Missed | undefined;
  /** No firing after this time. */
  until?: Date | undefined;
  /** Ends after this many tasks. Tasks of fire() do not count. */
  limit?: number | undefined;
  /** Each task is due up to this long after its planned time, at random, so that many schedules do not start at once. */
  jitter?: Duration | undefined;
};

/** The task that each firing adds. */
export type ScheduleTask<In = unknown> = Omit<AddOptions, "runAt" | "idempotencyKey" | "unique" | "tx"> & {
  queue: string | AddTarget<In, PartOptions> | QueueDefinition<In, unknown, unknown>;
} & ScheduleData<In>;

/** Default null, if the queue accepts that. */
type ScheduleData<In> = null extends In ? { data?: Payload<In> | undefined } : { data: Payload<In> };

/** A schedule in a list. */
export interface ScheduleInfo extends Omit<
  ScheduleRecord,
  "task" | "next" | "lastAt" | "createdAt" | "until"
> {
  queue: string;
  until: Date | null;
  /** The next five firing times; none while it is paused. */
  next: Date[];
  /** The planned time of the last firing. */
  lastAt: Date | null;
  createdAt: Date;
}

const TASK = [
  "queue",
  "data",
  "priority",
  "delay",
  "groupKey",
  "ttl",
  "headers",
  "maxAttempts",
  "cost",
  "urgent",
];

/**
 * A schedule. Its definition is sent to the store at once, and stays there until it is deleted: each time one of the
 * processes that have the store open fires it. Operations of one handle take effect in the order of the calls.
 */
export class Schedule {
  readonly name: string;
  /** Resolves when the definition is in the store. */
  readonly ready: Promise<void>;
  readonly #port: Port;
  readonly #order = new CallOrder();

  /** @internal Created by dibs.schedule(). */
  constructor(owner: Owner, name: string, when?: ScheduleTimes, what?: ScheduleTask) {
    this.name = checkScheduleName(name);
    this.#port = owner.port;
    this.ready = when === undefined ? Promise.resolve() : this.#define(owner, when, what!);
  }

  /** Checks synchronously what it can. Only a queue's validator may be asynchronous. */
  #define(owner: Owner, when: ScheduleTimes, what: ScheduleTask): Promise<void> {
    const timing = parseTiming(when);
    checkObject(what, "What a schedule adds");
    checkNames(what, TASK, "scheduled task");
    const { queue: target, data = null, ...options } = what;
    parseAddOptions(options, () => 0, "schedule");
    const queue = queueOf(owner, target);
    return this.#order.run(async () => {
      const task = (await queue.prepare(data, options)) as ScheduledTask;
      const definition: ScheduleDefinition = { ...timing, task };
      // Send both without an await between them, so that the queue has its policy before the first task.
      const [, stored] = await Promise.all([
        queue.declareIfNeeded(),
        this.#port.schedule(this.name, definition),
      ]);
      if (differs(definition, stored)) {
        owner.warnOnce(
          `Schedule "${this.name}" is stored with another definition than this program's, which was not applied. An operator set ` +
            `it, or the token that this program uses may not change it: that takes admin.`,
        );
      }
    });
  }

  async info(): Promise<ScheduleInfo> {
    const { items } = await this.#inOrder(() => this.#port.schedules({ name: this.name }));
    const [found] = items;
    if (!found) throw noSuchSchedule(this.name);
    return describe(found);
  }

  /** The schedule does not fire until it is resumed. Firing times in between do not count as missed. */
  async pause(): Promise<void> {
    await this.#inOrder(() => this.#port.pauseSchedule(this.name, true));
  }

  async resume(): Promise<void> {
    await this.#inOrder(() => this.#port.pauseSchedule(this.name, false));
  }

  /** Adds its task now, also while it is paused. The plan stays as it is. */
  async fire(): Promise<AddedTaskHandle> {
    return new AddedTaskHandle(this.#port, await this.#inOrder(() => this.#port.fireSchedule(this.name)));
  }

  /** Resolves with whether the schedule existed. The tasks that it has added stay. */
  async delete(): Promise<boolean> {
    return this.#inOrder(() => this.#port.unschedule(this.name));
  }

  async #inOrder<T>(operation: () => Promise<T>): Promise<T> {
    await this.ready;
    return this.#order.run(operation);
  }
}

function differs({ task, missed, ...timing }: ScheduleDefinition, stored: ScheduleRecord): boolean {
  const ofTiming = { cron: null, tz: null, every: null, until: null, limit: null, jitter: null, ...timing };
  const wanted = { ...ofTiming, missed, ...task };
  const found: Record<string, unknown> = { ...stored, ...stored.task };
  return Object.entries(wanted).some(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(found[name]),
  );
}

function queueOf(owner: Owner, target: ScheduleTask["queue"]): Queue {
  if (target instanceof Queue) return target;
  if (typeof target === "string") return new Queue(owner, target);
  checkObject(target, "The queue of a schedule");
  if ("options" in target) {
    checkDefinition(target);
    return new Queue(owner, target.name, target.options);
  }
  throw invalid(`A schedule takes the name of a queue, its handle or its definition; got ${show(target)}.`);
}

export function describe({ task, next, lastAt, createdAt, until, ...rest }: ScheduleRecord): ScheduleInfo {
  return {
    ...rest,
    queue: task.queue,
    until: until === null ? null : new Date(until),
    next: next.map((at) => new Date(at)),
    lastAt: lastAt === null ? null : new Date(lastAt),
    createdAt: new Date(createdAt),
  };
}

refuseSurplus(Schedule, "schedule", { promises: { info: "", pause: "", resume: "", fire: "", delete: "" } });
