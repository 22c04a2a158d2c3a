/** The types of the server's answers. Only types: nothing of the server is in the page. */

export type * from "../../../src/dashboard/contract.ts";
export type * from "../../../src/dashboard/live-frames.ts";
export type { Advice, Verdict } from "../../../src/pools/advise.ts";
export type { QueuePolicy } from "../../../src/core/queue/policy.ts";
export type {
  Attempt,
  DepthByState,
  HeldBack,
  QueueStats,
  SubscriptionRecord,
  TaskState,
  WorkerRecord,
} from "../../../src/core/task/task.ts";
export type { ScheduleRecord } from "../../../src/core/time/schedule.ts";
