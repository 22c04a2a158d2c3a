import { z } from "@hono/zod-openapi";
import { ALL_CHILDREN } from "../../core/handler/children-signal.ts";
import { invalid } from "../../core/errors/errors.ts";
import { LIMITS } from "../../core/input/limits.ts";
import type { SettleCall } from "../../core/task/claim-call.ts";
import type { ClaimRef, TaskError } from "../../core/task/task.ts";
import { toBody } from "./bodies.ts";
import { type App, define, problem } from "./define.ts";
import { refOf, settle } from "./held-claim.ts";
import { problemOf } from "./problem.ts";
import { anyJson, duration, failure, ofClaim, settled, state } from "./schemas.ts";
import type { WorkerSessions } from "./worker-sessions.ts";

/** Settling claims: a path for each way, and one for many claims at once. */

interface Way {
  summary: string;
  fields: z.ZodRawShape;
  call: (body: never) => SettleCall;
}

const spent = z
  .number()
  .int()
  .min(0)
  .max(LIMITS.cost)
  .optional()
  .openapi({ description: "the real cost in rate limits with a unit, instead of its cost" });

/** The error of a failed attempt. */
interface Failing {
  error: TaskError;
  delay?: number;
  spent?: number;
}

const failing = { error: failure, delay: duration.optional(), spent };

const WAYS = {
  ack: {
    summary: "Done, with a result for waiting callers",
    fields: {
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
    },
    call: ({ result, each = false, costs, ...more }: AckBody) => ({
      ...{ kind: "ack", result: result === undefined ? null : toBody(result) },
      ...(each && { each }),
      ...(costs && { next: { costs } }),
      ...more,
    }),
  },
  nack: {
    summary: "Failed: retried after `delay` or the queue's backoff",
    fields: failing,
    call: (body: Failing) => ({ kind: "nack", ...body }),
  },
  hold: {
    summary:
      "Another system's limit was met: its groupKey, or its queue, waits, and the attempt does not count",
    fields: failing,
    call: (body: Failing) => ({ kind: "hold", ...body }),
  },
  reject: {
    summary: "Straight to the dead letters",
    fields: { error: failure },
    call: ({ error }: Failing) => ({ kind: "reject", error }),
  },
  release: {
    summary: "Return the task to its position, now or after `delay`; the attempt does not count",
    fields: { delay: duration.optional() },
    call: (body: { delay?: number } | undefined) => ({ kind: "release", started: true, ...body }),
  },
  park: {
    summary: "Wait for a signal, or for all children, without occupying a worker",
    fields: {
      signal: z.string().optional(),
      children: z
        .literal(true)
        .optional()
        .openapi({ description: "instead of a signal: until all children of the task have ended" }),
      timeout: duration.optional(),
    },
    call: ({ signal, children, timeout }: { signal?: string; children?: true; timeout?: number }) => {
      if ((signal === undefined) === (children === undefined))
        throw invalid("park takes a signal, or children: true.");
      return { kind: "park", signal: signal ?? ALL_CHILDREN, timeout: timeout ?? null };
    },
  },
} satisfies Record<string, Way>;

interface AckBody {
  result?: unknown;
  each?: boolean;
  costs?: number[];
  spent?: number;
}

type WayName = keyof typeof WAYS;

const ways = Object.entries(WAYS) as [WayName, Way][];

export function settlements(app: App, workers: WorkerSessions): void {
  for (const [name, { summary, fields, call }] of ways) {
    const body = z.strictObject(fields);
    define(
      app,
      {
        ...{ method: "post", path: `/v1/claims/{id}/{fence}/${name}`, summary },
        ...{ params: ofClaim, answer: settled },
        body: name === "release" ? body.optional() : body,
      },
      async ({ port, params, body: given }) => {
        const ref = refOf(params);
        const outcome = await settle(port, ref, call(given));
        workers.settled(ref.fence);
        return outcome;
      },
    );
  }
  settleMany(app, workers);
}

const one = z
  .discriminatedUnion(
    "kind",
    ways.map(([kind, { fields }]) =>
      z.strictObject({
        ...{ kind: z.literal(kind), id: z.string(), fence: z.number().int().min(0) },
        ...fields,
      }),
    ) as never,
  )
  .openapi("Settlement");

const outcome = z
  .object({
    ...{ id: z.string(), fence: z.number() },
    state: state.optional().openapi({ description: "of the task, if it was settled" }),
    problem: problem.optional().openapi({ description: "why it was not settled" }),
  })
  .openapi("SettlementOutcome");

/** Each settlement has its own outcome. They share a commit, because they are sent without an await between them. */
function settleMany(app: App, workers: WorkerSessions): void {
  define(
    app,
    {
      ...{
        method: "post",
        path: "/v1/settlements",
        summary: "Settle many claims, each with its own outcome",
      },
      body: z.strictObject({ settlements: z.array(one).min(1).max(LIMITS.claimBatch) }),
      answer: z.object({ outcomes: z.array(outcome) }),
    },
    async ({ port, body }) => {
      const { settlements: given } = body as { settlements: ({ kind: WayName } & ClaimRef)[] };
      const outcomes = await Promise.allSettled(
        given.map(({ kind, id, fence, ...rest }) =>
          settle(port, { id, fence }, WAYS[kind].call(rest as never)),
        ),
      );
      return {
        outcomes: outcomes.map((each, at) => {
          const { id, fence } = given[at]!;
          if (each.status === "rejected") return { id, fence, problem: problemOf(each.reason) };
          workers.settled(fence);
          return { id, fence, state: each.value.state };
        }),
      };
    },
  );
}
