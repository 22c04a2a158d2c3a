import { DibsError } from "../core/errors/errors.ts";
import type { DeclareOutcome } from "../core/queue/policy.ts";
import type { Port } from "../core/port.ts";
import type { ScheduledTask, ScheduleRecord } from "../core/time/schedule.ts";
import { show } from "../core/errors/show.ts";
import type { AdminAction } from "./guard.ts";
import type { Grant } from "./scopes.ts";

type Verbs = Pick<Port, "schedule" | "pauseSchedule" | "unschedule" | "fireSchedule">;

interface Log {
  audit: (action: AdminAction) => void;
  auditOutcome: (action: Omit<AdminAction, "by">) => (outcome: DeclareOutcome) => void;
}

/** The verbs that change schedules, for guard.ts. A schedule belongs to the queue that it adds to. */
export function guardSchedules(port: Port, grant: Grant, { audit, auditOutcome }: Log): Verbs {
  /** Calls `change` with a check that needs `admin`, and logs what was done. A token that cannot see it learns nothing. */
  const asAdmin = async <T>(
    action: { verb: string; schedule: string },
    change: (options: { mayChange: (before: ScheduleRecord) => boolean }) => Promise<T>,
  ): Promise<T> => {
    let queue: string | undefined;
    const done = await change({
      mayChange: ({ task }) => {
        if (!grant.sees(task.queue)) return false;
        grant.need(["admin"], [task.queue]);
        queue = task.queue;
        return true;
      },
    });
    if (queue !== undefined && done !== false) audit({ by: grant.name, queue, ...action });
    return done;
  };

  /** All tokens share the names of schedules: that a name is taken cannot be hidden, only its queue. */
  const mayDefine = (name: string, before: ScheduleRecord, force: boolean): boolean => {
    const { queue } = before.task;
    if (!grant.sees(queue))
      throw new DibsError(
        "FORBIDDEN",
        `The token ${show(grant.name)} may not define schedule ${show(name)}: another one has that name. Use another name.`,
      );
    if (force) grant.need(["admin"], [queue]);
    return grant.allows("admin", queue);
  };

  return {
    schedule: async (name, definition, options) => {
      const queue: unknown = (definition as Partial<typeof definition> | null)?.task?.queue;
      // The port refuses a definition without a queue.
      if (typeof queue !== "string") return port.schedule(name, definition);
      const force = options?.force === true;
      grant.need([force ? "admin" : "add"], [queue]);
      const record = await port.schedule(name, definition, {
        force,
        mayChange: (before) => mayDefine(name, before, force) && grant.allows("admin", queue),
        onOutcome: auditOutcome({ verb: "schedule", queue, schedule: name }),
      });
      return grant.allows("read", record.task.queue) ? record : withoutOthers(record, definition.task);
    },
    pauseSchedule: async (name, paused) =>
      asAdmin({ verb: paused ? "pause" : "resume", schedule: name }, (options) =>
        port.pauseSchedule(name, paused, options),
      ),
    unschedule: async (name) =>
      asAdmin({ verb: "unschedule", schedule: name }, (options) => port.unschedule(name, options)),
    fireSchedule: async (name) =>
      asAdmin({ verb: "fire", schedule: name }, (options) => port.fireSchedule(name, options)),
  };
}

/** The stored task may be that of another caller: a token that may not read it gets only what it sent itself. */
function withoutOthers(record: ScheduleRecord, given: ScheduledTask): ScheduleRecord {
  const { task } = record;
  const isOwn =
    task.data === given.data && JSON.stringify(task.headers ?? {}) === JSON.stringify(given.headers ?? {});
  return isOwn ? record : { ...record, task: { queue: task.queue, data: "null" } };
}
