import type { Role } from "./role.ts";
import { nap } from "./nap.ts";
import { around, chance } from "./random.ts";
import { exports, research } from "./shop.ts";

/** The programs of the demo's pools: one task at a time, and as many processes as the load needs. */
export const doResearch: Role = (dibs, { name }) => {
  const worker = dibs.queue(research).work(
    async (task) => {
      const { topic, sources } = task.data;
      for (let source = 1; source <= sources; source++) {
        await task.step(`source ${source}`, () => nap(task, around(600)));
        await task.progress(source / (sources + 1), `read source ${source} of ${sources}`);
      }
      if (chance(0.03)) throw new Error(`The answer about ${topic} has no citation`);
      await nap(task, around(400));
      return { answer: `Little changed about ${topic}.`, pages: sources * 3 };
    },
    { name },
  );
  return { ready: worker.ready, stop: () => worker.stop({ timeout: "2s" }) };
};

export const exportTables: Role = (dibs, { name }) => {
  const worker = dibs.queue(exports).work(
    async (task) => {
      await nap(task, around(1_500));
      return { rows: task.data.table.length * 1_000 };
    },
    { name },
  );
  return { ready: worker.ready, stop: () => worker.stop({ timeout: "2s" }) };
};
