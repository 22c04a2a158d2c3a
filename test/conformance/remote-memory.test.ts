import { conformance } from "./suite/index.ts";
import { memory } from "./memory-harness.ts";
import { remote } from "./remote-harness.ts";

conformance("a server on memory, through its client,", remote(memory));
