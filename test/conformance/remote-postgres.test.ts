import { conformance } from "./suite/index.ts";
import { dropAfterAll, postgres } from "./postgres-harness.ts";
import { remote, REMOTE_THEMES } from "./remote-harness.ts";

conformance("a server on PostgreSQL, through its client,", remote(postgres), REMOTE_THEMES);
dropAfterAll();
