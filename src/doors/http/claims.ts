import { z } from "@hono/zod-openapi";
import { claimLost, DibsError, invalid, isDibsError } from "../../core/errors.ts";
import { LIMITS } from "../../core/limits.ts";
import type { Port, SettleCall } from "../../core/port.ts";
import type { ClaimedTask, TaskError, TaskRecord } from "../../core/task.ts";
import { type Verified, verifiedBy } from "../../core/verification.ts";
import { fromBody, toBody } from "./bodies.ts";
import { type App, define } from "./define.ts";
import { anyJson, claim, claimWish, duration, failure, inQueue, ofClaim, settled } from "./schemas.ts";

/** The error of a failed attempt. */
interface Failing {
  error: TaskError;
  delay?: number;
  spent?: number;
}

const spent = z
  .number()
  .int()
  .min(0)
  .max(LIMITS.cost)
  .optional()
  .openapi({ description: "the real cost in rate limits with a unit, instead of its cost" });

const failing = z.strictObject({ error: failure, delay: duration.optional(), spent });

/** Manual claims: each lasts for its lease, and is settled or extended by its id and fence. */
export function claims(app: App): void {
  define(
    app,
    {
      ...{
        method: "post",
        path: "/v1/queues/{queue}/claims",
        summary: "Claim tasks, waiting up to `wait` for the first",
      },
      ...{ params: inQueue, body: claimWish, answer: z.object({ claims: z.array(claim) }), claims: true },
      answers: "later",
    },
    async ({ port, params, body, signal }) => {
      const request = body as { max: number; wait: number; lease?: number; worker: string };
      const { tasks } = await port.claim({ queues: [params["queue"]!], ...request, signal });
      if (signal.aborted) await giveBack(port, tasks);
      return { claims: tasks.map(shown) };
    },
  );
  const path = "/v1/claims/{id}/{fence}";
  const settling = { method: "post", params: ofClaim, answer: settled } as const;
  define(
    app,
    {
      ...{ ...settling, path: `${path}/ack`, summary: "Done, with a result for waiting callers" },
      body: z.strictObject({
        result: anyJson.optional(),
        each: z
          .boolean()
          .optional()
          .openapi({ description: "for a stage: each item of `result` becomes a part" }),
        costs: z
          .array(z.number())
          .optional()
          .openapi({ description: "for a stage: the cost of each task of the next one, in order" }),
        spent,
      }),
    },
    ({ port, params, body }) => {
      const { result, each = false, costs, ...more } = body as AckBody;
      const encoded = result === undefined ? null : toBody(result);
      const next = costs && { next: { costs } };
      return settle(port, params, { kind: "ack", result: encoded, ...(each && { each }), ...next, ...more });
    },
  );
  define(
    app,
    {
      ...{
        ...settling,
        path: `${path}/nack`,
        summary: "Failed: retried after `delay` or the queue's backoff",
      },
      body: failing,
    },
    ({ port, params, body }) => settle(port, params, { kind: "nack", ...(body as Failing) }),
  );
  define(
    app,
    {
      ...{
        ...settling,
        path: `${path}/hold`,
        summary:
          "Another system's limit was met: its groupKey, or its queue, waits, and the attempt does not count",
      },
      body: failing,
    },
    ({ port, params, body }) => settle(port, params, { kind: "hold", ...(body as Failing) }),
  );
  define(
    app,
    {
      ...{ ...settling, path: `${path}/reject`, summary: "Straight to the dead letters" },
      body: z.strictObject({ error: failure }),
    },
    ({ port, params, body }) =>
      settle(port, params, { kind: "reject", error: (body as { error: TaskError }).error }),
  );
  define(
    app,
    {
      ...settling,
      path: `${path}/release`,
      summary: "Return the task to its position, now or after `delay`; the attempt does not count",
      body: z.strictObject({ delay: duration.optional() }).optional(),
    },
    ({ port, params, body }) =>
      settle(port, params, { kind: "release", started: true, ...(body as { delay?: number }) }),
  );
  flows(app, path);
  define(
    app,
    {
      ...{
        method: "post",
        path: `${path}/extend`,
        summary: "The lease ends this long from now",
        params: ofClaim,
      },
      body: z.strictObject({ lease: duration }),
    },
    ({ port, params, body }) => port.extend(refOf(params), (body as { lease: number }).lease),
  );
  define(
    app,
    {
      ...{
        method: "post",
        path: `${path}/progress`,
        summary: "Report progress, append a line to the log of the attempt, or both",
        params: ofClaim,
      },
      body: z.strictObject({
        value: z.number().nullable().default(null).openapi({ description: "from 0 to 1" }),
        note: z.string().nullable().default(null),
        log: z.string().optional().openapi({ description: "a line of the log" }),
      }),
    },
    ({ port, params, body }) => {
      const { value, note, log } = body as { value: number | null; note: string | null; log?: string };
      return port.progress(refOf(params), value, note, log);
    },
  );
}

/** The client is gone, or the server stops: other workers need not wait for the lease to end. */
async function giveBack(port: Port, tasks: ClaimedTask[]): Promise<never> {
  await Promise.all(tasks.map((task) => port.settle(task, { kind: "release", started: false })));
  throw new DibsError("UNAVAILABLE", "The client no longer waits, or the server stops. Try again soon.");
}

/** Parking, steps, and verdicts. */
function flows(app: App, path: string): void {
  const settling = { method: "post", params: ofClaim, answer: settled } as const;
  define(
    app,
    {
      ...{ ...settling, path: `${path}/park`, summary: "Wait for a signal, without occupying a worker" },
      body: z.strictObject({ signal: z.string(), timeout: duration.optional() }),
    },
    ({ port, params, body }) => {
      const { signal, timeout = null } = body as { signal: string; timeout?: number };
      return settle(port, params, { kind: "park", signal, timeout });
    },
  );
  define(
    app,
    {
      ...{
        method: "put",
        path: `${path}/steps/{name}`,
        summary: "Store a value for later attempts",
      },
      params: ofClaim.extend({ name: z.string() }),
      body: z.strictObject({ value: anyJson.optional() }),
    },
    ({ port, params, body }) => {
      const { value } = body as { value?: unknown };
      return port.step(refOf(params), params["name"]!, value === undefined ? null : toBody(value));
    },
  );
  define(
    app,
    { ...settling, path: `${path}/accept`, summary: "For a verifier: accept the result" },
    async ({ port, params }) =>
      settle(port, params, { kind: "accept", of: (await verifiedIn(port, params)).of }),
  );
  define(
    app,
    {
      ...{
        ...settling,
        path: `${path}/refuse`,
        summary: "For a verifier: refuse the result; the task goes to another worker, with the feedback",
      },
      body: z.strictObject({
        feedback: z.string(),
        steps: z
          .enum(["clear", "keep"])
          .default("clear")
          .openapi({ description: "whether the next attempt runs the steps of this one again" }),
      }),
    },
    async ({ port, params, body }) => {
      const { of, queue } = await verifiedIn(port, params);
      const { feedback, steps } = body as { feedback: string; steps: "clear" | "keep" };
      const verified = { ...of, ...(await locationOf(port, of, queue)) };
      return settle(port, params, { kind: "refuse", of: verified, feedback, keepSteps: steps === "keep" });
    },
  );
}

/** What the task of this claim asks for a verdict on, and its own queue. */
async function verifiedIn(
  port: Port,
  params: Record<string, unknown>,
): Promise<{ of: Verified; queue: string }> {
  const { id, data, queue } = await heldTask(port, params);
  const of = verifiedBy(data);
  if (!of) throw invalid(`Task ${id} asks for no verdict: it is not a verification task.`);
  return { of, queue };
}

/**
 * A verifier need not be allowed to read the other tasks of the queue. If the result is gone, the verdict has no
 * effect.
 */
async function locationOf(
  port: Port,
  of: Verified,
  asking: string,
): Promise<{ queue: string; attempt: number }> {
  try {
    const { queue, attempt } = (await port.verifying(of)).task;
    return { queue, attempt };
  } catch (error) {
    if (isDibsError(error) && error.code === "TASK_NOT_FOUND") return { queue: asking, attempt: 1 };
    throw error;
  }
}

/** For a task that does not exist, the claim is lost. */
async function heldTask(port: Port, params: Record<string, unknown>): Promise<TaskRecord> {
  const { id, fence } = refOf(params);
  try {
    return await port.task(id);
  } catch (error) {
    throw isDibsError(error) && error.code === "TASK_NOT_FOUND" ? claimLost(id, fence) : error;
  }
}

function refOf(params: Record<string, unknown>): { id: string; fence: number } {
  const { id, fence } = params as { id: string; fence: number };
  return { id, fence };
}

/** Only a backoff needs the queue and the attempt, so they are read only then. */
async function settle(port: Port, params: Record<string, unknown>, call: SettleCall): Promise<unknown> {
  const ref = refOf(params);
  if (call.kind !== "nack" && call.kind !== "hold")
    return port.settle({ ...ref, queue: "", attempt: 1 }, { ...call });
  const { queue, attempt } = await heldTask(port, params);
  return port.settle({ ...ref, queue, attempt }, call);
}

function shown({ data, contentType, ...rest }: ClaimedTask): object {
  return { ...rest, contentType, ...fromBody(data, contentType) };
}

interface AckBody {
  result?: unknown;
  each?: boolean;
  costs?: number[];
  spent?: number;
}
