// First: see the comment in supported-node.ts.
import "../core/supported-node.ts";
export { ManualClock } from "./manual-clock.ts";
