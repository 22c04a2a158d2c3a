import { FLOW_SLOT_MS, FLOW_WINDOW_MS } from "../core/queue/flow.ts";

/** Bounds of both SQL engines: no call takes long, however many tasks there are. */
export const BOUNDS = {
  /** Operations per commit: more would take noticeably long for other processes. */
  commit: 2_000,
  /** Expired or due tasks that one call processes, per kind. */
  sweep: 1_000,
  /** Tasks that one page of a search compares. */
  search: 5_000,
  /** Due documents that one call returns. */
  due: 16,
  /** Retried tasks that a claim reads to find those that it may take. */
  retryScan: 32,
  /** Events stored for slow listeners. */
  events: 10_000,
  /** Events that an engine writes at once, and per second. Above that it may only count them: event-allowance.ts. */
  eventBurst: 10_000,
  eventRate: 20_000,
  /** Important events that it writes beyond that, at once and per second. */
  eventReserve: 1_000,
  /** The last rows of events are stored for slow listeners even if their numbers are older than `events`. */
  eventRows: 200,
  /**
   * A listener's registration expires after this many awake milliseconds. A call renews it once a third of that has
   * passed.
   */
  listenerLease: 30_000,
  rateSlot: FLOW_SLOT_MS,
  rateWindow: FLOW_WINDOW_MS,
} as const;
