import { conformance } from "../../src/engine/conformance/index.ts";
import { memory } from "./memory-harness.ts";

conformance("memory", memory);
