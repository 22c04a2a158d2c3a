import { conformance } from "../../src/engine/conformance/index.ts";
import { dropAfterAll, postgres } from "./postgres-harness.ts";

conformance("postgres", postgres);
dropAfterAll();
