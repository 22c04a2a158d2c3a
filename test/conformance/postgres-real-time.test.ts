import { conformance } from "../../src/engine/conformance/index.ts";
import { dropAfterAll, postgresInRealTime } from "./postgres-harness.ts";

// postgres.test.ts runs everything, on a clock that is moved by hand. Here run the themes of which something is left where time
// cannot be moved, and that ask more of the store than its checks.
conformance("postgres, by its server's own time,", postgresInRealTime, [
  "queues",
  "add",
  "claims",
  "waitingClaims",
  "callOrder",
  "fences",
  "settle",
  "progress",
  "sessions",
  "retry",
  "retryElsewhere",
  "groups",
  "concurrency",
  "turns",
  "changingLimits",
  "unhold",
  "idempotency",
  "ledger",
  "deadLetters",
  "redrive",
  "results",
  "cancel",
  "steps",
  "verification",
  "runs",
  "topics",
  "subscriptions",
  "stats",
  "heldBack",
  "workers",
  "events",
  "transactions",
  "severalOpeners",
]);
dropAfterAll();
