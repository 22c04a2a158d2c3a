import { z } from "@hono/zod-openapi";
import { claimLost, DibsError, invalid, isDibsError } from "../../core/errors.ts";
import { LIMITS } from "../../core/limits.ts";
import type { Port, SettleCall } from "../../core/port.ts";
import type { ClaimedTask, TaskError, TaskRecord } from "../../core/task.ts";
import { type Verified, verifiedBy } from "../../core/verification.ts";
import { fromBody, toBody } from "./bodies.ts";
import { type App, define } from "./define.ts";
import { anyJson, claim, claimWish, duration, failure, inQueue, ofClaim, settled } from "./schemas.ts";

/** What an attempt that did not succeed leaves. */
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
  .openapi({ description: "what it really took of limits with a unit, in place of its cost" });

const failing = z.strictObject({ error: failure, delay: duration.optional(), spent });

/** Claims by hand: each lasts for its lease, and is settled or extended by its id and fence. */
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
      const wish = body as { max: number; wait: number; lease?: number; worker: string };
      const { tasks } = await port.claim({ queues: [params["queue"]!], ...wish, signal });
      if (signal.aborted) await giveBack(port, tasks);
      return { claims: tasks.map(shown) };
    },
  );
  const path = "/v1/claims/{id}/{fence}";
  const settling = { method: "post", params: ofClaim, answer: settled } as const;
  define(
    app,
    {
      ...{ ...settling, path: `${path}/ack`, summary: "Done, with a result for whoever waits for it" },
      body: z.strictObject({
        result: anyJson.optional(),
        each: z.boolean().optional().openapi({ description: "of a stage: each item of `result` is a part" }),
        costs: z
          .array(z.number())
          .optional()
          .openapi({ description: "of a stage: what each task of the next one costs, in order" }),
        spent,
      }),
    },
    ({ port, params, body }) => {
      const { result, each = false, costs, ...more } = body as AckBody;
      const kept = result === undefined ? null : toBody(result);
      const next = costs && { next: { costs } };
      return say(port, params, { kind: "ack", result: kept, ...(each && { each }), ...next, ...more });
    },
  );
  define(
    app,
    {
      ...{
        ...settling,
        path: `${path}/nack`,
        summary: "Failed: another try after `delay` or the queue's backoff",
      },
      body: failing,
    },
    ({ port, params, body }) => say(port, params, { kind: "nack", ...(body as Failing) }),
  );
  define(
    app,
    {
      ...{
        ...settling,
        path: `${path}/hold`,
        summary: "Somebody else's limit was met: its groupKey, or its queue, waits; no attempt is used up",
      },
      body: failing,
    },
    ({ port, params, body }) => say(port, params, { kind: "hold", ...(body as Failing) }),
  );
  define(
    app,
    {
      ...{ ...settling, path: `${path}/reject`, summary: "Straight to the dead letters" },
      body: z.strictObject({ error: failure }),
    },
    ({ port, params, body }) =>
      say(port, params, { kind: "reject", error: (body as { error: TaskError }).error }),
  );
  define(
    app,
    { ...settling, path: `${path}/release`, summary: "Back to its place; no attempt is used up" },
    (given) => say(given.port, given.params, { kind: "release", started: true }),
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
      ...{ method: "post", path: `${path}/progress`, summary: "How far it is", params: ofClaim },
      body: z.strictObject({ value: z.number(), note: z.string().nullable().default(null) }),
    },
    ({ port, params, body }) => {
      const { value, note } = body as { value: number; note: string | null };
      return port.progress(refOf(params), value, note);
    },
  );
}

/** Whoever asked is gone, or is sent elsewhere: others need not wait for the lease to end. */
async function giveBack(port: Port, tasks: ClaimedTask[]): Promise<never> {
  await Promise.all(tasks.map((task) => port.settle(task, { kind: "release", started: false })));
  throw new DibsError("UNAVAILABLE", "Nobody waits for this any more, or the server stops. Try again soon.");
}

/** Parking, steps, and what a verifier has to say. */
function flows(app: App, path: string): void {
  const settling = { method: "post", params: ofClaim, answer: settled } as const;
  define(
    app,
    {
      ...{ ...settling, path: `${path}/park`, summary: "Waits for a signal, and holds nobody meanwhile" },
      body: z.strictObject({ signal: z.string(), timeout: duration.optional() }),
    },
    ({ port, params, body }) => {
      const { signal, timeout = null } = body as { signal: string; timeout?: number };
      return say(port, params, { kind: "park", signal, timeout });
    },
  );
  define(
    app,
    {
      ...{
        method: "put",
        path: `${path}/steps/{name}`,
        summary: "Keeps a value for the attempts that follow",
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
    { ...settling, path: `${path}/accept`, summary: "Of a verifier: the result counts" },
    async ({ port, params }) => say(port, params, { kind: "accept", of: (await askedFor(port, params)).of }),
  );
  define(
    app,
    {
      ...{ ...settling, path: `${path}/refuse`, summary: "Of a verifier: back to another worker, and why" },
      body: z.strictObject({ feedback: z.string() }),
    },
    async ({ port, params, body }) => {
      const { of, queue } = await askedFor(port, params);
      const { feedback } = body as { feedback: string };
      const judged = { ...of, ...(await standing(port, of, queue)) };
      return say(port, params, { kind: "refuse", of: judged, feedback });
    },
  );
}

/** What the task under this claim asks for a verdict on, and the queue that it is in itself. */
async function askedFor(
  port: Port,
  params: Record<string, unknown>,
): Promise<{ of: Verified; queue: string }> {
  const { id, data, queue } = await heldTask(port, params);
  const of = verifiedBy(data);
  if (!of) throw invalid(`Task ${id} asks for no verdict: it is not one of a queue's verifiers.`);
  return { of, queue };
}

/** Whoever judges a queue's results need not be allowed to see its other tasks. Of a result that is gone nothing comes. */
async function standing(
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

/** Of a task that is not there, a claim does not hold. */
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

/** Only a backoff is reckoned from the queue and the attempt, so only there are they looked up. */
async function say(port: Port, params: Record<string, unknown>, word: SettleCall): Promise<unknown> {
  const ref = refOf(params);
  if (word.kind !== "nack" && word.kind !== "hold")
    return port.settle({ ...ref, queue: "", attempt: 1 }, { ...word });
  const { queue, attempt } = await heldTask(port, params);
  return port.settle({ ...ref, queue, attempt }, word);
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
