import type { Verbs } from "../../../engine/engine.ts";
import type { Tx } from "../transaction/tx.ts";
import { endsOfRuns } from "./inspect-runs.ts";
import { endsOfTasks } from "./inspect.ts";

/** The verb `ends`: which of these tasks or runs have ended. Callers that wait for results repeat it. */

export function ends(tx: Tx, { ids, of }: Verbs["ends"]["in"]): Verbs["ends"]["out"] {
  return of === "runs" ? endsOfRuns(tx, ids) : endsOfTasks(tx, ids);
}
