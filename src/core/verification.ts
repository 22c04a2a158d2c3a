import { MOST_ATTEMPTS } from "./policy.ts";
import type { Addition, Body, NewTask, TaskError } from "./task.ts";

/**
 * A success in a verified queue is not an end: the task is `verifying`, its result and what it adds are kept back, and a
 * task of another queue, whose workers are the verifiers, asks for a verdict. So a verifier has what every worker has: a
 * lease, a heartbeat, retries when it crashes, a concurrency.
 */

const SUFFIX = "/verify";

/** Where the verdicts on a queue's results are asked for. */
export function verificationQueue(queue: string): string {
  return queue + SUFFIX;
}

export function isVerificationQueue(queue: string): boolean {
  return queue.endsWith(SUFFIX);
}

/** Whose results a queue asks for verdicts on, by its name. */
export function verifiedQueue(queue: string): string | undefined {
  return isVerificationQueue(queue) ? queue.slice(0, -SUFFIX.length) : undefined;
}

/** What a task of such a queue asks for; undefined for one that somebody else put there. */
export function verifiedBy(data: Body): Verified | undefined {
  try {
    const { id, fence } = JSON.parse(data as string) as Partial<Verified>;
    return typeof id === "string" && typeof fence === "number" ? { id, fence } : undefined;
  } catch {
    return undefined;
  }
}

/** Feedback on a result when the task that asked for a verdict has ended, or is gone, and nobody gave one. */
export const NO_VERDICT = "Nobody judged the result: the task that asked for a verdict ended without one.";

/** What a verdict is asked for: the attempt that brought the result. */
export interface Verified {
  id: string;
  fence: number;
}

export function verificationTask(queue: string, { id, fence }: Verified): NewTask {
  // A verifier that fails is no reason to give up the result that it was to judge.
  return { queue: verificationQueue(queue), data: JSON.stringify({ id, fence }), maxAttempts: MOST_ATTEMPTS };
}

/** A refusal, as the ledger keeps it. */
export function refusal(feedback: string): TaskError {
  return { name: "Refused", message: feedback, stack: null };
}

/** Tasks that are kept back, as text: bytes are not for JSON. */
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
