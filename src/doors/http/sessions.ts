import { z } from "@hono/zod-openapi";
import { randomBytes } from "node:crypto";
import { LIMITS } from "../../core/input/limits.ts";
import type { ClaimRef } from "../../core/task/task.ts";
import { giveBack, shownClaim } from "./claims.ts";
import { type App, define } from "./define.ts";
import { claim, duration } from "./schemas.ts";
import type { WorkerSessions } from "./worker-sessions.ts";

/** Paths for workers that join over HTTP. worker-sessions.ts keeps their sessions. */

const ofSession = z.object({ session: z.string() });
const claimRef = z.strictObject({ id: z.string(), fence: z.number().int().min(0) });

const joining = z
  .strictObject({
    worker: z.string().min(1).openapi({ description: "a name for people; several workers may share it" }),
    queues: z.array(z.string()).min(1),
    concurrency: z.number().int().min(1).default(1),
    lease: duration
      .default(30_000)
      .openapi({ description: "the worker is given up after this long without a call" }),
    host: z.string().min(1).default("unknown"),
    pid: z.number().int().min(0).default(0),
  })
  .openapi("Joining");

const claimNotice = z
  .object({
    kind: z
      .enum(["cancel", "lost", "timeout"])
      .openapi({ description: "cancel: stop, the task ends cancelled. lost, timeout: the claim has ended" }),
    ...{ id: z.string(), fence: z.number() },
  })
  .openapi("ClaimNotice");

export function sessions(app: App, workers: WorkerSessions): void {
  define(
    app,
    {
      ...{ method: "post", path: "/v1/sessions", summary: "Join as a worker", body: joining, status: 201 },
      answer: z.object({ session: z.string(), lease: z.number() }),
      claims: true,
    },
    async ({ port, body, caller, closing }) => {
      const { worker: name, lease, ...facts } = body as unknown as z.output<typeof joining>;
      // Each instance has its own id, so that a task that one instance failed goes to another one first.
      const worker = { id: `${name}-${randomBytes(4).toString("hex")}`, name, ...facts };
      const session = await workers.join(port, { worker, lease, caller, closing });
      return { session: session.id, lease };
    },
  );
  define(
    app,
    {
      ...{ method: "post", path: "/v1/sessions/{session}/claims", params: ofSession, answers: "later" },
      summary: "Claim tasks from the worker's queues, waiting up to `wait` for the first",
      body: z.strictObject({
        max: z.number().int().min(1).max(LIMITS.claimBatch).default(1),
        wait: duration.default(0),
        queues: z
          .array(z.string())
          .min(1)
          .optional()
          .openapi({ description: "all of the worker's, unless set" }),
      }),
      answer: z.object({ claims: z.array(claim) }),
      claims: true,
    },
    async ({ port, params, body, signal, caller }) => {
      const session = workers.of(params["session"]!, caller);
      const { worker, lease } = session.joining;
      const { queues = worker.queues, max, wait } = body as { queues?: string[]; max: number; wait: number };
      const tasks = await session.claim(port, { queues, max, wait, signal });
      if (signal.aborted) await giveBack(port, tasks);
      const now = port.clock.read().wall;
      return { claims: tasks.map((task) => shownClaim(task, lease, now)) };
    },
  );
  define(
    app,
    {
      ...{ method: "post", path: "/v1/sessions/{session}/heartbeat", params: ofSession },
      summary: "One heartbeat for all claims of a worker, and what happened to them",
      body: z
        .strictObject({
          claims: z.array(claimRef).max(LIMITS.addBatch).optional().openapi({
            description: "what the worker holds; a claim that is missing from two of these lists is released",
          }),
        })
        .optional(),
      answer: z.object({ notices: z.array(claimNotice) }),
    },
    async ({ params, body, caller }) => {
      const { claims } = (body ?? {}) as { claims?: ClaimRef[] };
      return { notices: await workers.of(params["session"]!, caller).heartbeat(claims) };
    },
  );
  define(
    app,
    {
      ...{ method: "delete", path: "/v1/sessions/{session}", params: ofSession },
      summary: "Leave: the worker's claims are released",
    },
    ({ params, caller }) => workers.of(params["session"]!, caller).leave(),
  );
}
