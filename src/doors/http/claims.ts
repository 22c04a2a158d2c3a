import { z } from "@hono/zod-openapi";
import { DibsError, invalid, isDibsError } from "../../core/errors/errors.ts";
import type { Port } from "../../core/port.ts";
import type { ClaimedTask } from "../../core/task/task.ts";
import { type Verified, verifiedBy } from "../../core/handler/verification.ts";
import { fromBody, toBody } from "./bodies.ts";
import { type App, define } from "./define.ts";
import { heldTask, refOf, settle } from "./held-claim.ts";
import {
  anyJson,
  claim,
  claimStatus,
  claimRequest,
  duration,
  inQueue,
  leaseEndsAt,
  ofClaim,
  settled,
} from "./schemas.ts";

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
      ...{ params: inQueue, body: claimRequest, answer: z.object({ claims: z.array(claim) }), claims: true },
      answers: "later",
    },
    async ({ port, params, body, signal }) => {
      const request = body as { max: number; wait: number; lease?: number; worker: string };
      const { tasks, policies } = await port.claim({ queues: [params["queue"]!], ...request, signal });
      if (signal.aborted) await giveBack(port, tasks);
      const now = port.clock.read().wall;
      return {
        claims: tasks.map((task) => shownClaim(task, request.lease ?? policies[task.queue]!.lease, now)),
      };
    },
  );
  const path = "/v1/claims/{id}/{fence}";
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
      answer: claimStatus.extend({ leaseEndsAt }),
    },
    async ({ port, params, body }) => {
      const { lease } = body as { lease: number };
      const status = await port.extend(refOf(params), lease);
      return { ...status, leaseEndsAt: port.clock.read().wall + lease };
    },
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
      answer: claimStatus,
    },
    ({ port, params, body }) => {
      const { value, note, log } = body as { value: number | null; note: string | null; log?: string };
      return port.progress(refOf(params), value, note, log);
    },
  );
}

/**
 * Releases tasks that the client never got, because it is gone or the server stops: other workers then need not wait
 * for the lease to end.
 */
export async function giveBack(port: Port, tasks: ClaimedTask[]): Promise<never> {
  await Promise.all(tasks.map((task) => port.settle(task, { kind: "release", started: false })));
  throw new DibsError("UNAVAILABLE", "The client no longer waits, or the server stops. Try again soon.");
}

/** Parking, steps, and verdicts. */
function flows(app: App, path: string): void {
  const settling = { method: "post", params: ofClaim, answer: settled } as const;
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
      settle(port, refOf(params), { kind: "accept", of: (await verifiedIn(port, params)).of }),
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
      return settle(port, refOf(params), {
        kind: "refuse",
        of: verified,
        feedback,
        keepSteps: steps === "keep",
      });
    },
  );
}

/** The result that the task of this claim asks a verdict on, and the queue of that result. */
async function verifiedIn(
  port: Port,
  params: Record<string, unknown>,
): Promise<{ of: Verified; queue: string }> {
  const { id, data, queue } = await heldTask(port, refOf(params));
  const of = verifiedBy(data);
  if (!of) throw invalid(`Task ${id} asks for no verdict: it is not a verification task.`);
  return { of, queue };
}

/**
 * Reads only what a verifier may read: its token need not allow the other tasks of the queue. If the result is gone,
 * the verdict has no effect.
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

/** `lease`: how long the claim lasts from now, without an extension or a heartbeat. */
export function shownClaim({ data, contentType, ...rest }: ClaimedTask, lease: number, now: number): object {
  return { ...rest, contentType, ...fromBody(data, contentType), lease, leaseEndsAt: now + lease };
}
