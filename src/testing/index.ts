// First: see the comment in supported-node.ts.
import "../core/process/supported-node.ts";
export { ManualClock } from "./manual-clock.ts";
export { type Added } from "./match.ts";
export {
  type DrainOptions,
  type Drained,
  openTestStore,
  type TestStore,
  type TestStoreOptions,
} from "./test-store.ts";
