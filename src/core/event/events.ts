import type { SupervisionEventType } from "../supervision.ts";

/**
 * The events that the engines write while a reader listens. They are ordered per task, and not durable. `gap` says that
 * some were missed, because the reader was slower than the store's retention of events.
 */
export type TaskEventType =
  | "task.added"
  | "task.claimed"
  | "task.done"
  | "task.failed"
  | "task.released"
  | "task.parked"
  | "task.verifying"
  | "task.signalled"
  | "task.dead"
  | "task.cancelled"
  | "task.expired"
  | "task.redriven"
  | "task.progress";

export type ScheduleEventType =
  | "schedule.created"
  | "schedule.updated"
  | "schedule.paused"
  | "schedule.resumed"
  | "schedule.fired"
  | "schedule.deleted";

export type DibsEvent =
  | {
      type: TaskEventType;
      at: number;
      queue: string;
      taskId: string;
      worker?: string;
      attempt?: number;
      detail?: string;
    }
  | {
      type:
        | "queue.created"
        | "queue.updated"
        | "queue.paused"
        | "queue.resumed"
        | "queue.purged"
        | "queue.deleted";
      at: number;
      queue: string;
      detail?: string;
    }
  | {
      type: "subscription.created" | "subscription.removed";
      at: number;
      queue: string;
      pattern: string;
      group: string;
    }
  | { type: ScheduleEventType; at: number; queue: string; schedule: string }
  /** A decision of a pool, or a change of an alert. `name` is that of the pool or of the alerts; `queue` its first. */
  | {
      type: SupervisionEventType;
      at: number;
      queue: string;
      name: string;
      detail: string;
      from?: number;
      to?: number;
    }
  | { type: "worker.joined" | "worker.left" | "worker.lost"; at: number; worker: string; detail?: string }
  | { type: "gap"; at: number; missed: number };

/**
 * Important events: few, and an operator may have to act on them. Dead letters, workers, and changes to queues,
 * subscriptions, schedules and pools. Where not all events can be kept, these are dropped last.
 */
export function isImportant(type: DibsEvent["type"]): boolean {
  return type === "task.dead" || !type.startsWith("task.");
}
