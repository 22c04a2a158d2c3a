import { conformance } from "../../src/engine/conformance/index.ts";
import { sqlite } from "./sqlite-harness.ts";

conformance("sqlite", sqlite, "tasks");
