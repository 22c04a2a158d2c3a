import { describe, expect, onTestFinished, test } from "vitest";
import { LIMITS } from "../../src/core/input/limits.ts";
import type { NewTask, TaskEnd } from "../../src/core/task/task.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { openMemory } from "../../src/engines/memory/engine.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { ground } from "./postgres/kit.ts";
import { call, newTask, openEngine } from "./sqlite/kit.ts";

const ENGINES: Record<string, () => Promise<Engine>> = {
  memory: async () => {
    const engine = openMemory({ clock: new ManualClock() });
    onTestFinished(() => engine.close());
    return engine;
  },
  sqlite: () => openEngine(),
  postgres: async () => (await ground()).engine(),
};
const RESULT = JSON.stringify("r".repeat(250 * 1024));

/** Tasks, or runs of one stage, that have ended with a large result. */
async function done(engine: Engine, count: number, fields: Partial<NewTask>): Promise<string[]> {
  const tasks = Array.from({ length: count }, () => newTask(fields));
  const added = await call(engine, { verb: "add", tasks });
  const queues = [tasks[0]!.queue];
  const held = await call(engine, { verb: "claim", queues, max: 100, worker: "w" });
  const settlement = { kind: "done", result: RESULT } as const;
  for (const { id, fence } of held.tasks) await call(engine, { verb: "settle", id, fence, settlement });
  return added.map(({ id }) => id);
}

describe.each(Object.entries(ENGINES))("the ends on %s", (_, open) => {
  test.each([
    { of: undefined, fields: {} },
    {
      of: "runs" as const,
      fields: { queue: "p/a", run: { pipeline: "p", stages: [{ name: "a" }] } } as Partial<NewTask>,
    },
  ])("of $of come for as many of the first as fit", async ({ of, fields }) => {
    const engine = await open();
    const ids = await done(engine, 40, fields);
    const seen: string[] = [];
    for (let left = ids; left.length > 0; left = ids.slice(seen.length)) {
      const ends = await call(engine, { verb: "ends", ids: left, ...(of && { of }) });
      expect(ends.length).toBeGreaterThan(0);
      expect(ends.length * RESULT.length).toBeLessThan(LIMITS.answerBytes);
      for (const end of ends as TaskEnd[]) {
        expect(end.result === RESULT).toBe(true);
        seen.push(end.id);
      }
    }
    expect(seen).toEqual(ids);
  });
});
