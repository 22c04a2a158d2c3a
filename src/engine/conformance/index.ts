import { describe } from "vitest";
import { add } from "./add.ts";
import { claims } from "./claim.ts";
import { clock } from "./clock.ts";
import { deadLetters } from "./dead-letters.ts";
import { fences } from "./fences.ts";
import { groups } from "./groups.ts";
import type { Harness } from "./harness.ts";
import { idempotency } from "./idempotency.ts";
import { starter } from "./kit.ts";
import { leases } from "./leases.ts";
import { ledger } from "./ledger.ts";
import { policies } from "./policies.ts";
import { queues } from "./queues.ts";
import { redrive } from "./redrive.ts";
import { retry } from "./retry.ts";
import { retryElsewhere } from "./retry-elsewhere.ts";
import { sessions } from "./sessions.ts";
import { settle } from "./settle.ts";
import { ttl } from "./ttl.ts";
import { waitingClaims } from "./waiting-claims.ts";

/** Every promise that a store makes, by theme. A change of what dibs promises starts here. */
export function conformance(name: string, harness: Harness): void {
  const start = starter(harness);
  describe(`${name} keeps the promises:`, () => {
    queues(start);
    policies(start);
    add(start);
    claims(start);
    waitingClaims(start);
    fences(start);
    settle(start);
    leases(start);
    sessions(start);
    clock(start);
    retry(start);
    retryElsewhere(start);
    groups(start);
    idempotency(start);
    ttl(start);
    ledger(start);
    deadLetters(start);
    redrive(start);
  });
}
