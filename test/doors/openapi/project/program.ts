// A user's program over a client that was generated from /openapi.json (schema.ts). Type-checked, then run by
// ../openapi.test.ts against a server, whose address it is given.

import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.ts";

const client = createClient<paths>({ baseUrl: process.argv[2]! });
const queue = { path: { queue: "emails" } };

const added = await client.POST("/v1/queues/{queue}/tasks", {
  params: queue,
  body: { data: { to: "ada@example.com" }, priority: 5, delay: "0s" },
});
const id: string = added.data!.id;

const early = await client.GET("/v1/tasks/{id}/result", { params: { path: { id } } });
assert.equal(early.response.status, 202);
const pending = early.data as components["schemas"]["PendingTask"];
const state: "scheduled" | "waiting" | "ready" | "claimed" | "parked" | "verifying" = pending.state;
assert.equal(state, "ready");

const claimed = await client.POST("/v1/queues/{queue}/claims", { params: queue, body: { lease: 60_000 } });
const claim: components["schemas"]["Claim"] = claimed.data!.claims[0]!;
assert.deepEqual(claim.data, { to: "ada@example.com" });
const settled = await client.POST("/v1/claims/{id}/{fence}/ack", {
  params: { path: { id, fence: claim.fence } },
  body: { result: ["sent"] },
});
assert.equal(settled.data!.state, "done");

const ended = await client.GET("/v1/tasks/{id}/result", {
  params: { path: { id }, query: { timeout: "5s" } },
});
const ending = ended.data as components["schemas"]["Ending"];
assert.deepEqual([ending.state, ending.result], ["done", ["sent"]]);

const refused = await client.GET("/v1/tasks/{id}", { params: { path: { id: "nonsense" } } });
const problem: components["schemas"]["Problem"] = refused.error!;
assert.equal(problem.code, "INVALID");

const task: components["schemas"]["Task"] = (await client.GET("/v1/tasks/{id}", { params: { path: { id } } }))
  .data!;
const run: components["schemas"]["RunPlace"] | null = task.run;
assert.equal(run, null);

/** Never called: what the description must not allow. */
export async function mistakes(): Promise<void> {
  await client.POST("/v1/queues/{queue}/tasks", {
    params: queue,
    // @ts-expect-error: a task has data
    body: { priority: 5 },
  });
  // @ts-expect-error: a task has no such field
  const odd: components["schemas"]["NewTask"] = { data: 1, prio: 5 };
  void odd;
  await client.POST("/v1/claims/{id}/{fence}/release", {
    params: {
      // @ts-expect-error: a claim has a fence
      path: { id },
    },
  });
  await client.POST("/v1/claims/{id}/{fence}/reject", {
    params: { path: { id, fence: claim.fence } },
    body: {
      // @ts-expect-error: a failure has a message
      error: {},
    },
  });
  await client.GET("/v1/queues/{queue}/tasks", {
    params: {
      ...queue,
      // @ts-expect-error: there is no such state
      query: { state: "asleep" },
    },
  });
  // @ts-expect-error: a task that is part of no run has null
  const place: components["schemas"]["RunPlace"] = task.run;
  void place;
}
