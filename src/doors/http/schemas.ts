import { z } from "@hono/zod-openapi";
import { parseDuration } from "../../core/time/duration.ts";
import { LIMITS } from "../../core/input/limits.ts";
import { parseUnique, type UniqueOptions } from "../../core/task/unique.ts";
import { ATTEMPT_OUTCOMES, END_STATES, PENDING_STATES } from "../../core/task/task.ts";

/**
 * The shapes of HTTP requests and answers, as they are checked and described: /openapi.json is generated from them.
 * Fields have the names of the port. The schemas leave to the store what only the store can check.
 */

export const duration = z
  .union([z.number().int().min(0), z.string().regex(/^\d+(\.\d+)?(ms|s|m|h|d)$|^\d+$/)])
  // In a query, a number is also a text.
  .transform((value) =>
    parseDuration(typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value, "A duration"),
  )
  .openapi({
    type: ["string", "integer"],
    example: "30s",
    description: '"250ms", "30s", "5m", "2h", "1d", or milliseconds',
  });

/** Any JSON; optional. */
export const anyJson = z.any().openapi({ description: "any JSON" });
/** Any JSON; required, but may be null. */
export const json = z
  .any()
  .refine((value) => value !== undefined, "is missing; any JSON is accepted, also null")
  .openapi({ description: "any JSON" });

/** A whole number in a path or a query, where everything is text. */
export function wholeNumber(least: number, most: number = Number.MAX_SAFE_INTEGER) {
  return z
    .string()
    .regex(/^\d+$/, "must be a whole number")
    .transform(Number)
    .refine((value) => value >= least && value <= most, `must be from ${least} to ${most}`)
    .openapi({ type: "integer", minimum: least, maximum: most });
}

/** Which page of a list, as query parameters. */
export const pageQuery = z.object({
  after: z.string().optional().openapi({ description: "the `next` of the previous page" }),
  limit: wholeNumber(1, LIMITS.page).default(100),
});
/** `next` of an answer. A page ends at its limit or at about 4 MiB. */
export const next = z.string().nullable().openapi({
  description: "pass it as `after` for the next page; null: there is no more",
});

const headers = z.record(z.string(), z.string());
const state = z.enum([...PENDING_STATES, ...END_STATES]);

export const inQueue = z.object({ queue: z.string().openapi({ example: "emails" }) });
export const ofTask = z.object({ id: z.string() });
export const ofClaim = z.object({ id: z.string(), fence: wholeNumber(0) });

export const newTask = z
  .strictObject({
    data: json,
    priority: z.number().int().min(-LIMITS.priority).max(LIMITS.priority).optional(),
    delay: duration.optional(),
    groupKey: z.string().optional(),
    idempotencyKey: z.string().optional(),
    unique: z
      .strictObject({
        key: z.string(),
        while: z.union([z.enum(["waiting", "pending"]), duration]).optional(),
        on: z.enum(["keep", "replace", "debounce"]).optional(),
      })
      .transform((given) => parseUnique(given as UniqueOptions))
      .optional(),
    ttl: duration.optional(),
    maxAttempts: z.number().int().min(1).optional(),
    cost: z.number().int().min(0).max(LIMITS.cost).optional(),
    urgent: z.boolean().optional(),
    headers: headers.optional(),
  })
  .openapi("NewTask");

export const taskUpdate = z
  .strictObject({
    priority: z.number().int().min(-LIMITS.priority).max(LIMITS.priority).optional(),
    delay: duration.optional().openapi({ description: "due this long from now; 0: now" }),
    data: anyJson.optional(),
  })
  .openapi("TaskUpdate");

export const changed = z
  .object({ state, changed: z.boolean().openapi({ description: "false: it was that way already" }) })
  .openapi("Changed");

export const addedTask = z
  .object({ id: z.string(), queue: z.string(), state, existing: z.boolean() })
  .openapi("AddedTask");

/** Payloads that are not JSON are text or base64. */
const body = { data: json, contentType: z.string(), encoding: z.literal("base64").optional() };

export const claimRequest = z
  .strictObject({
    max: z.number().int().min(1).max(LIMITS.claimBatch).default(1),
    wait: duration.default(0),
    lease: duration.optional(),
    worker: z.string().default("http"),
  })
  .openapi("ClaimRequest");

const stageCost = z
  .union([z.number(), z.literal("input")])
  .optional()
  .openapi({ description: 'of its tasks; "input": the ack of the previous stage gives it as `costs`' });
const stageAfter = z
  .union([z.string(), z.array(z.string())])
  .optional()
  .openapi({
    description: "the stage that it follows, if not the one before it; a list: the stages that it merges",
  });
export const newStage = z
  .object({ name: z.string(), joins: z.boolean().default(false), after: stageAfter, cost: stageCost })
  .openapi("NewStage");
export const stage = z
  .object({ name: z.string(), joins: z.boolean(), after: stageAfter, cost: stageCost })
  .openapi("Stage");

/** The run of a pipeline that a task belongs to, and where in it the task is. */
const runPlace = z
  .object({
    ...{ id: z.string(), pipeline: z.string(), stage: z.string() },
    ...{ part: z.array(z.number()), joins: z.boolean(), after: z.array(z.string()).optional() },
  })
  .openapi("RunPlace");

export const runState = z.enum(["running", ...END_STATES]);

const run = z
  .object({
    ...{ id: z.string(), pipeline: z.string(), stages: z.array(stage), state: runState },
    ...{ createdAt: z.number(), endedAt: z.number().nullable() },
  })
  .openapi("Run");

export const runsPage = z.object({ runs: z.array(run), next: z.number().nullable() }).openapi("RunsPage");

export const runPage = z
  .object({
    run,
    parts: z.array(
      z.object({
        ...{ id: z.string(), queue: z.string(), stage: z.string(), part: z.array(z.number()), state },
        ...{ createdAt: z.number(), startedAt: z.number().nullable(), endedAt: z.number().nullable() },
      }),
    ),
    next: z.number().nullable(),
  })
  .openapi("RunPage");

export const leaseEndsAt = z
  .number()
  .openapi({ description: "when the lease ends, in milliseconds since 1970 by the server's clock" });

/** The status of a valid claim. For any other claim the answer is CLAIM_LOST. */
export const claimStatus = z
  .object({
    cancelRequested: z
      .boolean()
      .openapi({ description: "stop: the task ends cancelled, whatever its holder says" }),
  })
  .openapi("ClaimStatus");

export const claim = z
  .object({
    ...{ id: z.string(), fence: z.number(), queue: z.string() },
    ...body,
    ...{ headers, attempt: z.number(), maxAttempts: z.number(), priority: z.number() },
    ...{ groupKey: z.string().nullable(), createdAt: z.number(), cost: z.number().optional() },
    stepped: z
      .literal(true)
      .optional()
      .openapi({ description: "earlier attempts stored steps, or a signal arrived" }),
    feedback: z.string().optional().openapi({ description: "why a verifier refused the last result" }),
    run: runPlace.optional(),
    lease: z.number().openapi({ description: "milliseconds from now until the claim is lost" }),
    leaseEndsAt,
  })
  .openapi("Claim");

export const failure = z
  .strictObject({
    name: z.string().default("Error"),
    message: z.string(),
    stack: z.string().nullable().default(null),
  })
  .openapi("Failure");

const taskError = z.object({ name: z.string(), message: z.string(), stack: z.string().nullable() });
const log = z.array(z.object({ at: z.number(), text: z.string() })).optional();
const keptFailure = taskError.extend({ fingerprint: z.string() });

export const task = z
  .object({
    ...{ id: z.string(), queue: z.string(), state },
    ...body,
    ...{
      headers,
      priority: z.number(),
      groupKey: z.string().nullable(),
      idempotencyKey: z.string().nullable(),
      uniqueKey: z.string().optional(),
      cost: z.number(),
      urgent: z.boolean(),
    },
    ...{ attempt: z.number(), maxAttempts: z.number(), createdAt: z.number(), dueAt: z.number().nullable() },
    waitsFor: z.string().nullable().openapi({ description: "the signal that a parked task waits for" }),
    ...{ expiresAt: z.number().nullable(), worker: z.string().nullable(), startedAt: z.number().nullable() },
    ...{ endedAt: z.number().nullable(), cancelRequested: z.boolean(), result: json },
    progress: z.object({ value: z.number(), note: z.string().nullable() }).nullable(),
    log: log.openapi({ description: "what the attempt in progress has logged; not in lists" }),
    error: keptFailure.nullable(),
    run: z.union([runPlace, z.null()]),
    parent: z
      .object({ id: z.string(), queue: z.string() })
      .optional()
      .openapi({ description: "the task that spawned it; not in lists" }),
    children: z
      .object({ total: z.number(), pending: z.number() })
      .optional()
      .openapi({ description: "how many it has spawned, and how many of them have not ended; not in lists" }),
    truncated: z.object({ data: z.number().optional(), result: z.number().optional() }).optional().openapi({
      description:
        "in lists: `data` or `result` is the first 256 characters as text (bytes as base64), and this is its full size in bytes",
    }),
  })
  .openapi("Task");

export const attempt = z
  .object({
    ...{
      attempt: z.number(),
      fence: z.number(),
      worker: z.string(),
      startedAt: z.number(),
      endedAt: z.number(),
    },
    outcome: z.enum(ATTEMPT_OUTCOMES),
    error: keptFailure.nullable(),
    log: log.openapi({ description: "what its handler logged; absent if nothing" }),
  })
  .openapi("Attempt");

export const childPage = z
  .object({
    children: z.array(
      z
        .object({
          ...{ id: z.string(), queue: z.string(), n: z.number() },
          name: z.string().nullable().openapi({ description: "null: told apart by the order of the spawns" }),
          ...{ state, createdAt: z.number(), endedAt: z.number().nullable() },
          result: anyJson.optional().openapi({ description: "with `ends`" }),
          error: taskError.nullable().optional().openapi({ description: "with `ends`: of a dead child" }),
        })
        .openapi("Child"),
    ),
    next: z.number().nullable(),
  })
  .openapi("ChildPage");

export const step = z
  .object({ kind: z.enum(["step", "signal", "timeout", "child"]), name: z.string(), value: json })
  .openapi("Step");

export const pendingTask = z
  .object({ id: z.string(), state: z.enum(PENDING_STATES) })
  .openapi("PendingTask", { description: "It has not ended yet." });

export const ending = z
  .object({ id: z.string(), state: z.enum(END_STATES), result: json, error: keptFailure.nullable() })
  .openapi("Ending");

export const policy = z.record(z.string(), z.any()).openapi("Policy", {
  description:
    "lease, timeout, maxAttempts, backoff, elsewhere, ttl, maxDepth, maxBytes, overflow, expiredTo, maxPayload, retention, verified, maxConcurrency, rateLimit, groups, window; milliseconds",
});

/** The statistics of a queue, and why it is held back. */
export const stats = z
  .looseObject({
    ...{
      queue: z.string(),
      exists: z.boolean(),
      paused: z.boolean(),
      depth: z.record(z.string(), z.number()),
      workers: z.number(),
    },
    serviceTimes: z
      .object({
        count: z.number(),
        mean: z.number(),
        p50: z.number(),
        p90: z.number(),
        p99: z.number(),
        max: z.number(),
      })
      .nullable()
      .openapi({ description: "milliseconds that the last successes took; null: none is stored" }),
    heldBack: z
      .object({
        by: z.enum(["hold", "window", "concurrency", "rate", "groups"]),
        until: z
          .number()
          .nullable()
          .openapi({ description: "milliseconds since 1970; null: when a task ends" }),
      })
      .nullable(),
  })
  .openapi("Stats");
export const worker = z
  .object({
    ...{ id: z.string(), name: z.string(), queues: z.array(z.string()), concurrency: z.number() },
    ...{ host: z.string(), pid: z.number(), joinedAt: z.number() },
    silentFor: z.number().openapi({ description: "milliseconds since its last heartbeat" }),
    claims: z.number().openapi({ description: "tasks it holds" }),
  })
  .openapi("Worker");
export const pattern = z
  .object({
    ...{ pattern: z.string(), count: z.number(), firstAt: z.number(), lastAt: z.number() },
    share: z.number().openapi({ description: "share of all dead letters of the queue, 0 to 1" }),
    sample: z.object({ id: z.string(), error: taskError.nullable() }),
  })
  .openapi("DeadPattern");
export const subscription = z
  .object({ pattern: z.string(), group: z.string(), queue: z.string(), createdAt: z.number() })
  .openapi("Subscription");

export const deadFilter = z.strictObject({
  ids: z.array(z.string()).optional(),
  pattern: z.string().optional(),
  error: z.string().optional(),
});

export const settled = z.object({ state });
export const count = z.object({ count: z.number() });
export { state };
