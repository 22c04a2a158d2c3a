import { z } from "@hono/zod-openapi";
import type { Port, Word } from "../../core/port.ts";
import type { ClaimedTask, TaskError } from "../../core/task.ts";
import { fromBody, toBody } from "./bodies.ts";
import { type App, define } from "./define.ts";
import { claim, claimWish, duration, failure, inQueue, json, ofClaim, settled } from "./schemas.ts";

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
    },
    async ({ port, params, body, signal }) => {
      const wish = body as { max: number; wait: number; lease?: number; worker: string };
      const { tasks } = await port.claim({ queues: [params["queue"]!], ...wish, signal });
      return { claims: tasks.map(shown) };
    },
  );
  const path = "/v1/claims/{id}/{fence}";
  const settling = { method: "post", params: ofClaim, answer: settled } as const;
  define(
    app,
    {
      ...{ ...settling, path: `${path}/ack`, summary: "Done, with a result for whoever waits for it" },
      body: z.strictObject({ result: json.optional() }),
    },
    ({ port, params, body }) => {
      const { result } = body as { result?: unknown };
      return say(port, params, { kind: "ack", result: result === undefined ? null : toBody(result) });
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
      body: z.strictObject({ error: failure, delay: duration.optional() }),
    },
    ({ port, params, body }) => {
      const { error, delay } = body as { error: TaskError; delay?: number };
      return say(port, params, { kind: "nack", error, delay });
    },
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

function refOf(params: Record<string, unknown>): { id: string; fence: number } {
  const { id, fence } = params as { id: string; fence: number };
  return { id, fence };
}

/** Only a failure's backoff is reckoned from the queue and the attempt, so only there are they looked up. */
async function say(port: Port, params: Record<string, unknown>, word: Word): Promise<unknown> {
  const ref = refOf(params);
  if (word.kind !== "nack" || word.delay !== undefined)
    return port.settle({ ...ref, queue: "", attempt: 1 }, { ...word });
  const { queue, attempt } = await port.task(ref.id);
  return port.settle({ ...ref, queue, attempt }, word);
}

function shown({ data, contentType, ...rest }: ClaimedTask): object {
  return { ...rest, contentType, ...fromBody(data, contentType) };
}
