import { conformance } from "./suite/index.ts";
import { dropAfterAll, postgres } from "./postgres-harness.ts";
import { remote } from "./remote-harness.ts";

/**
 * Everything takes two minutes, and most of it asks PostgreSQL what postgres.test.ts asks it and the client what
 * remote-memory.test.ts asks it. In CI the themes run that need both: several servers that share a store, and what one
 * has to tell another.
 */
const BOTH = [...(["waitingClaims", "settle", "sessions", "results", "events", "severalOpeners"] as const)];

conformance(
  "a server on PostgreSQL, through its client,",
  remote(postgres),
  process.env["DIBS_LONG"] ? undefined : [...BOTH],
);
dropAfterAll();
