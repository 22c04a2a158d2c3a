// Claims without a worker: for scripts, and for your own loops.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { ClaimLostError, open } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");
const letters = dibs.queue<string, string>("letters");
await letters.addMany([{ data: "a" }, { data: "b" }]);

// The lease is one second unless it is extended. `wait` is how long to wait for a first task.
const [claim] = await letters.claim({ max: 1, lease: "1s", wait: "5s", worker: "me" });
assert.ok(claim);
await claim.extend("1m");
await sleep(1_100);
await claim.ack(claim.data.toUpperCase());
console.log(`${claim.data}: acked, because it was extended`);

const [slow] = await letters.claim({ lease: "100ms", worker: "me" });
assert.ok(slow);
await sleep(150);
const [next] = await letters.claim({ wait: "5s", worker: "somebody else" });
assert.ok(next);
assert.equal(next.id, slow.id);
assert.ok(next.fence > slow.fence);
await assert.rejects(slow.ack("too late"), ClaimLostError);
await next.ack("B");
assert.equal(await dibs.task(next.id).result(), "B");
console.log(
  `${next.data}: the lease ended, the next claim has fence ${next.fence} and the old one changes nothing`,
);

const ledger = await dibs.task(next.id).history();
console.log(
  ledger.map(({ attempt, worker, outcome }) => `attempt ${attempt}, ${worker}: ${outcome}`).join("\n"),
);
assert.deepEqual(
  ledger.map(({ outcome }) => outcome),
  ["lost", "done"],
);
