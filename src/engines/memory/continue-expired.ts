import { continued } from "../../core/queue/expired-to.ts";
import { addChecked } from "./add.ts";
import type { Model } from "./model.ts";

/** After a verb: tasks that expired in it continue in the queue that their policy names. */
export function continueExpired(model: Model): void {
  for (const { task, why } of model.expired.splice(0)) {
    const to = model.policy(task.queue).expiredTo;
    if (to !== null) addChecked(model, [continued(task, to, why)]);
  }
}
