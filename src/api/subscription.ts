import type { Json } from "../core/json-type.ts";
import { checkNames, checkObject } from "../core/options.ts";
import { DEFAULT_POLICY, type QueuePolicyOptions } from "../core/policy.ts";
import type { SubscriptionRecord } from "../core/task.ts";
import { subscriptionQueue } from "../core/topic.ts";
import type { WorkOptions } from "../worker/options.ts";
import type { QueueOptions } from "./definition.ts";
import { type Owner, Queue } from "./queue.ts";

/** The policy of the group's queue, and validators. */
export type SubscriptionOptions = QueueOptions;

/** The same, and how this worker works. */
export interface SubscribeOptions
  extends QueuePolicyOptions, Pick<QueueOptions, "result">, Omit<WorkOptions, "order"> {}

/** A subscription as it is listed. */
export interface SubscriptionInfo extends Omit<SubscriptionRecord, "createdAt"> {
  createdAt: Date;
}

/**
 * A consumer group: a queue that gets a copy of everything published to the topics that match its pattern. The handle
 * is made at once; the subscription reaches the store with its first operation, and lasts until it is removed.
 */
export class Subscription<In = unknown, Out = unknown, Data = Json<In>> extends Queue<In, Out, Data> {
  readonly pattern: string;
  /** Workers of one group compete; another group gets its own copy. */
  readonly group: string;

  constructor(owner: Owner, pattern: string, group: string, options: SubscriptionOptions = {}) {
    const { port } = owner;
    super(owner, subscriptionQueue(pattern, group), options, {
      declare: (policy) => port.subscribe(pattern, group, policy),
      drop: () => port.unsubscribe(pattern, group),
      isNeeded: () => true,
    });
    this.pattern = pattern;
    this.group = group;
  }
}

const WORK = ["concurrency", "prefetch", "name"] as const;
const NAMES = [...Object.keys(DEFAULT_POLICY), "result", ...WORK];

export function splitSubscribe(options: SubscribeOptions = {}): {
  work: WorkOptions;
  subscription: SubscriptionOptions;
} {
  checkObject(options, "The options of subscribe");
  checkNames(options, NAMES, "subscribe");
  const { concurrency, prefetch, name, ...subscription } = options;
  return { work: { concurrency, prefetch, name }, subscription };
}
