import { conformance } from "./suite/index.ts";
import { dropAfterAll, postgres } from "./postgres-harness.ts";
import { remote } from "./remote-harness.ts";
import { isLong } from "../run/long.ts";

/**
 * All themes take two minutes, and most of them repeat what postgres.test.ts and remote-memory.test.ts test. By default
 * only the themes run that need both: several servers that share a store, and what one reports to another.
 */
const BOTH = [...(["waitingClaims", "settle", "sessions", "results", "events", "severalOpeners"] as const)];

conformance("a server on PostgreSQL, through its client,", remote(postgres), isLong ? undefined : [...BOTH]);
dropAfterAll();
