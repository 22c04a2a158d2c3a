import { describe } from "vitest";
import { add } from "./add.ts";
import { claims } from "./claim.ts";
import type { Harness } from "./harness.ts";
import { starter } from "./kit.ts";
import { policies } from "./policies.ts";
import { queues } from "./queues.ts";
import { waitingClaims } from "./waiting-claims.ts";

export function conformance(name: string, harness: Harness): void {
  const start = starter(harness);
  describe(`${name} keeps the promises:`, () => {
    queues(start);
    policies(start);
    add(start);
    claims(start);
    waitingClaims(start);
  });
}
