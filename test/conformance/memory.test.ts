import { conformance } from "./suite/index.ts";
import { memory } from "./memory-harness.ts";

conformance("memory", memory);
