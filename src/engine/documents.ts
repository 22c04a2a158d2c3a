import type { DibsEvent, ScheduleEventType } from "../core/event/events.ts";
import type { SupervisionEventType } from "../core/supervision.ts";
import type { Addition } from "../core/task/task.ts";

/**
 * Small named values that processes share: schedules, pipelines, pools. The types of the verbs `put`, `documents` and
 * `housekeep`.
 */

export interface StoredDocument {
  name: string;
  value: string;
}

export interface DocumentChange {
  kind: string;
  name: string;
  value: string | null;
  expect?: string | null;
  /** When `housekeep` returns it, by the engine's clock; never unless set. */
  dueAt?: number;
  adds?: Addition[];
  /** The event to emit if the change happens. */
  event?: DocumentEvent;
}

/** Without its time, which the engine adds. */
export type DocumentEvent = WithoutTime<
  Extract<DibsEvent, { type: ScheduleEventType | SupervisionEventType }>
>;
type WithoutTime<Event> = Event extends unknown ? Omit<Event, "at"> : never;

export interface DueDocument {
  kind: string;
  name: string;
  value: string;
}
