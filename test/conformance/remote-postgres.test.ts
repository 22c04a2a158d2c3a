import { conformance } from "./suite/index.ts";
import { dropAfterAll, postgres } from "./postgres-harness.ts";
import { remote } from "./remote-harness.ts";
import { isLong } from "../run/long.ts";

/**
 * Everything takes two minutes, and most of it asks PostgreSQL what postgres.test.ts asks it and the client what
 * remote-memory.test.ts asks it. In CI the themes run that need both: several servers that share a store, and what one
 * has to tell another.
 */
const BOTH = [...(["waitingClaims", "settle", "sessions", "results", "events", "severalOpeners"] as const)];

conformance("a server on PostgreSQL, through its client,", remote(postgres), isLong ? undefined : [...BOTH]);
dropAfterAll();
