import { conformance } from "./suite/index.ts";
import { dropAfterAll, postgres } from "./postgres-harness.ts";

conformance("postgres", postgres);
dropAfterAll();
