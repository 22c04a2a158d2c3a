import { conformance } from "./suite/index.ts";
import { sqlite } from "./sqlite-harness.ts";

// The themes for which it matters that a store has its own threads.
conformance("sqlite in its threads", sqlite, ["waitingClaims", "callOrder", "events", "severalOpeners"]);
