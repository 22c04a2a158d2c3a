import type { NewTask } from "../../core/task/task.ts";
import type { AmqpDoor } from "./door.ts";
import { type Message, taskOf } from "./message.ts";
import { queueOf } from "./names.ts";
import type { Properties } from "./wire/properties.ts";
import { fieldOf, numberOf } from "./wire/table.ts";

/** A message as a task of one queue, with the priority and the time-to-live that this queue's arguments allow. */
export function queueTask(
  door: AmqpDoor,
  vhost: string,
  name: string,
  message: Message,
  read: Properties,
): NewTask {
  const settings = door.topology.queue(vhost, name)?.arguments ?? [];
  // Only queues that were declared with priorities have them.
  const most = numberOf(fieldOf(settings, "x-max-priority")) ?? 0;
  const priority = Math.min(read.priority ?? 0, most);
  const ttl = ttlOf(read.expiration, numberOf(fieldOf(settings, "x-message-ttl")));
  const task = taskOf(queueOf(vhost, name), name, message, read);
  if (priority > 0) task.priority = priority;
  if (ttl !== undefined) task.ttl = ttl;
  return task;
}

/** The shorter one of the message's and the queue's; undefined: the policy of the queue says enough. */
function ttlOf(expiration: string | undefined, ofQueue: number | undefined): number | undefined {
  if (expiration === undefined && ofQueue !== 0) return undefined;
  const ttl = Math.min(Number(expiration ?? ofQueue), ofQueue ?? Number.MAX_SAFE_INTEGER, LONGEST_TTL);
  return ttl === 0 ? AT_ONCE_MS : ttl;
}

/** 0 means: unless a consumer takes it at once. The claim for that consumer needs a commit, on a busy machine too. */
const AT_ONCE_MS = 100;

/** A year and more: longer than any queue is expected to hold a message. */
const LONGEST_TTL = 400 * 86_400_000;
