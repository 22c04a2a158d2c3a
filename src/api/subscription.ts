import type { Json } from "../core/input/json-type.ts";
import { checkNames, checkObject } from "../core/input/options.ts";
import { DEFAULT_POLICY, type QueuePolicyOptions } from "../core/queue/policy.ts";
import type { SubscriptionRecord } from "../core/task/task.ts";
import { subscriptionQueue } from "../core/topic/topic.ts";
import type { WorkOptions } from "../worker/options.ts";
import type { QueueOptions } from "./definition.ts";
import { type Owner, Queue } from "./queue.ts";

/** The policy of the group's queue, and validators. */
export type SubscriptionOptions = QueueOptions;

/** The policy of the group's queue, and the options of its worker. */
export interface SubscribeOptions<Data = unknown, Out = unknown>
  extends QueuePolicyOptions, Pick<QueueOptions, "result">, Omit<WorkOptions<Data, Out>, "order"> {}

/** A subscription in a list. */
export interface SubscriptionInfo extends Omit<SubscriptionRecord, "createdAt"> {
  createdAt: Date;
}

/**
 * A consumer group: a queue that gets a copy of everything published to topics that match its pattern. Creating the
 * handle makes no call; the first operation creates the subscription, which stays until it is removed.
 */
export class Subscription<In = unknown, Out = unknown, Data = Json<In>> extends Queue<In, Out, Data> {
  readonly pattern: string;
  /** Workers of one group compete. Another group gets its own copies. */
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

const WORK = ["concurrency", "prefetch", "name", "limit", "on"] as const;
const NAMES = [...Object.keys(DEFAULT_POLICY), "result", ...WORK];

export function splitSubscribe(options: SubscribeOptions<never, never> = {}): {
  work: WorkOptions<never, never>;
  subscription: SubscriptionOptions;
} {
  checkObject(options, "The options of subscribe");
  checkNames(options, NAMES, "subscribe");
  const { concurrency, prefetch, name, limit, on, ...subscription } = options;
  return { work: { concurrency, prefetch, name, limit, on }, subscription };
}
