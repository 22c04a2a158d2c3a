import { MOST_ATTEMPTS } from "../queue/policy.ts";
import type { Addition, Body, NewTask, TaskError } from "../task/task.ts";

/**
 * Rules of verification, used by the broker and the engines. A success in a verified queue is not an end: the task
 * becomes `verifying`, its result and the tasks that it adds are stored, and a task in another queue asks for a
 * verdict. The workers of that queue are the verifiers. So a verifier has what every worker has: a lease, heartbeats,
 * retries after a crash, a concurrency.
 */

const SUFFIX = "/verify";

/** The queue in which verdicts on a queue's results are requested. */
export function verificationQueue(queue: string): string {
  return queue + SUFFIX;
}

export function isVerificationQueue(queue: string): boolean {
  return queue.endsWith(SUFFIX);
}

/** What a task of a verification queue asks for; undefined if another caller added the task. */
export function verifiedBy(data: Body): Verified | undefined {
  try {
    const { id, fence } = JSON.parse(data as string) as Partial<Verified>;
    return typeof id === "string" && typeof fence === "number" ? { id, fence } : undefined;
  } catch {
    return undefined;
  }
}

/** The feedback if the task that asked for a verdict has ended, or was removed, without one. */
export const NO_VERDICT =
  "No verifier decided about the result: the task that asked for a verdict ended without one.";

/** What a verdict is about: the attempt that returned the result. */
export interface Verified {
  id: string;
  fence: number;
}

export function verificationTask(queue: string, { id, fence }: Verified): NewTask {
  // As many attempts as possible: a verifier that fails is no reason to give up the result.
  return { queue: verificationQueue(queue), data: JSON.stringify({ id, fence }), maxAttempts: MOST_ATTEMPTS };
}

/** A refusal as a ledger error. */
export function refusal(feedback: string): TaskError {
  return { name: "Refused", message: feedback, stack: null };
}

/** Stored adds as text. Bytes become base64, because JSON has none. */
export function encodeAdds(adds: readonly Addition[]): string {
  return JSON.stringify(
    adds.map(({ data, ...task }) =>
      typeof data === "string" ? { ...task, data } : { ...task, bytes: Buffer.from(data).toString("base64") },
    ),
  );
}

export function decodeAdds(text: string): Addition[] {
  const adds = JSON.parse(text) as (Omit<Addition, "data"> & { data?: Body; bytes?: string })[];
  return adds.map(({ bytes, ...task }) =>
    bytes === undefined
      ? (task as Addition)
      : ({ ...task, data: new Uint8Array(Buffer.from(bytes, "base64")) } as Addition),
  );
}
