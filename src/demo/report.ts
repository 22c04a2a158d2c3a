import type { Dibs } from "../api/dibs.ts";
import { each } from "../core/run/each.ts";
import { nap } from "./nap.ts";
import { around, chance } from "./random.ts";
import { APPROVAL, REPORT } from "./shop.ts";

/** The demo's pipeline: a report is outlined, its sections are written at the same time, and a person approves it. */
export function definePipeline(dibs: Dibs) {
  return dibs
    .pipeline<{ title: string; sections: number }>(REPORT)
    .stage("outline", async (task) => {
      await nap(task, around(600));
      const { title, sections } = task.data;
      return each(Array.from({ length: sections }, (_, i) => ({ title, section: i + 1 })));
    })
    .stage(
      "write",
      async (task) => {
        const { title, section } = task.data;
        const notes = await task.step("notes", async () => {
          await nap(task, around(800));
          return `notes on section ${section}`;
        });
        await task.progress(0.5, "writing");
        await nap(task, around(1_200));
        if (chance(0.08)) throw new Error(`The model stopped in the middle of section ${section}`);
        return { section, text: `${title}, ${section}: from ${notes}` };
      },
      { concurrency: 4, backoff: { type: "fixed", delay: "2s" } },
    )
    .join("edit", async (task) => {
      await nap(task, around(1_000));
      return { sections: task.data.length, words: task.data.length * 240 };
    })
    .stage("approve", async (task) => {
      const { by } = await task.waitFor<{ by: string }>(APPROVAL, { timeout: "3m" });
      return { ...task.data, approvedBy: by };
    })
    .stage("publish", async (task) => {
      await nap(task, around(300));
      return { url: `https://reports.example.com/${task.id}`, words: task.data.words };
    });
}
