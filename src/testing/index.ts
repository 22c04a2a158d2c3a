// First: see the comment there.
import "../core/supported-node.ts";
export { ManualClock } from "./manual-clock.ts";
