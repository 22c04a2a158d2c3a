// First: see the comment in supported-node.ts.
import "./core/process/supported-node.ts";
export {
  type AddManyOptions,
  type AddOptions,
  type Item,
  type PartOptions,
  type SpawnOptions,
} from "./api/add-options.ts";
export { type UniqueOptions } from "./core/task/unique.ts";
export { type DeadLetters, type DeadPatternInfo, type DeadSelection } from "./api/dead-letters.ts";
export { defineQueue, type QueueDefinition, type QueueOptions } from "./api/definition.ts";
export { type Dibs, type QueueInfo, type WorkerSummary } from "./api/dibs.ts";
export { open, type OpenOptions } from "./api/open.ts";
export type { PostgresPool } from "./core/process/address.ts";
export { type PipelineWorker } from "./api/pipeline-worker.ts";
export { type Pipeline } from "./api/pipeline.ts";
export {
  type JoinOptions,
  type Passed,
  type PipelineWorkOptions,
  type RunOptions,
  type StageHandler,
  type StageOptions,
} from "./api/pipeline-types.ts";
export { type PoolDecision, type PoolInfo } from "./api/pool-info.ts";
export { type Queue } from "./api/queue.ts";
export {
  type ClaimOptions,
  type QueueStats,
  type VerifiedTask,
  type Verifier,
  type VerifyOptions,
} from "./api/queue-types.ts";
export {
  type AddedRun,
  type PartStatus,
  type RunHandle,
  type RunStatus,
  type StageStatus,
} from "./api/run-handle.ts";
export { type Schedule, type ScheduleInfo, type ScheduleTask, type ScheduleTimes } from "./api/schedule.ts";
export {
  type SubscribeOptions,
  type Subscription,
  type SubscriptionInfo,
  type SubscriptionOptions,
} from "./api/subscription.ts";
export { defineTopic, type TopicDefinition, type TopicOptions } from "./api/topic-definition.ts";
export { type Published, type PublishOptions, type Topic } from "./api/topic.ts";
export {
  type AddedTaskHandle,
  type AttemptInfo,
  type ChildHandle,
  type ChildInfo,
  type ChildrenOptions,
  type LogLineInfo,
  type RunAgainOptions,
  type TaskHandle,
  type TaskInfo,
  type UpdateOptions,
} from "./api/task-handle.ts";
export { type AllChange, type ChangeAllOptions, type MatchOptions } from "./api/change-all.ts";
export { type BulkProgress } from "./core/task/change-all.ts";
export { ChildFailedError, type FailedChild } from "./core/handler/child-failed.ts";
export { type Clock } from "./core/time/clock.ts";
export { Reject, Retry } from "./core/handler/control.ts";
export { type Duration } from "./core/time/duration.ts";
export { type Json } from "./core/input/json-type.ts";
export { type Each, each, type EachOptions } from "./core/run/each.ts";
export { ClaimLostError, DibsError, type ErrorCode } from "./core/errors/errors.ts";
export { type DibsEvent } from "./core/event/events.ts";
export { type Logger } from "./core/process/logger.ts";
export { type GroupPolicyOptions, type QueuePolicy, type QueuePolicyOptions } from "./core/queue/policy.ts";
export { type RateLimitOptions } from "./core/queue/rate.ts";
export { type RunPlace, type RunState, type Stage } from "./core/run/run.ts";
export { PLANNED_HEADER, SCHEDULE_HEADER } from "./core/time/schedule.ts";
export { type AttemptOutcome, type TaskState } from "./core/task/task.ts";
export { type WindowOptions } from "./core/queue/window.ts";
export { type Advice } from "./pools/advise.ts";
export { type AlertKind, type AlertOptions, type AlertRule } from "./pools/alert-rules.ts";
export { type Alerts } from "./pools/alerts.ts";
export { type PoolOptions } from "./pools/options.ts";
export { type PoolPolicyOptions } from "./pools/policy.ts";
export { type Pool, type PoolStatus } from "./pools/pool.ts";
export { type Claim } from "./worker/claim.ts";
export { type WorkerHooks } from "./worker/hooks.ts";
export { type StopOptions, type WorkBatchOptions, type WorkOptions } from "./worker/options.ts";
export { type WaitForChildrenOptions } from "./worker/children.ts";
export {
  type BatchHandler,
  type ChildLike,
  type ChildOutcome,
  type ChildOutcomes,
  type ChildResults,
  type Handler,
  type Task,
} from "./worker/task.ts";
export { type Verdict } from "./worker/verify.ts";
export { type Worker } from "./worker/worker.ts";
