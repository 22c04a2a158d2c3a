import { conformance } from "./suite/index.ts";
import { sqlite } from "./sqlite-harness.ts";

// The themes in which it matters that a store lives in threads of its own.
conformance("sqlite in its threads", sqlite, ["waitingClaims", "callOrder", "events", "severalOpeners"]);
