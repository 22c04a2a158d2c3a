import { describe, expect } from "vitest";
import { open } from "../../../src/index.ts";
import { actsOf, test, until } from "../harness/stage.ts";
import { ServedStage } from "./served-stage.ts";
import { isLong } from "../../run/long.ts";

const stops = Number(process.env["DIBS_STOPS"] ?? (isLong ? 100 : 3));

describe("a server that is stopped", () => {
  test(
    `${stops} times under load: tasks that can finish in time are done by the worker that had them`,
    { timeout: 60_000 + stops * 8_000 },
    async ({ stage }) => {
      const file = stage.file;
      const served = await ServedStage.start(stage);
      const workers = await Promise.all(
        ["a", "b"].map((name) => stage.startWorker({ work: { name, concurrency: 5, prefetch: 5 } })),
      );
      const dibs = await stage.open();
      const queue = actsOf(dibs);
      const ids: string[] = [];
      for (let stop = 0; stop < stops; stop++) {
        const tasks = await queue.addMany(
          Array.from({ length: 40 }, () => ({ data: { do: "sleep" as const, ms: 30 } })),
        );
        ids.push(...tasks.map(({ id }) => id));
        const isOurs = ({ id }: { id?: string }): boolean => tasks.some((task) => task.id === id);
        await until("a worker has begun", () => workers.some((worker) => worker.all("start").some(isOurs)));
        expect(await served.program.stop()).toEqual({ code: 0, signal: null });
        await served.restart();
      }
      await Promise.all(ids.slice(-40).map((id) => dibs.task(id).result({ timeout: "20s" })));
      await Promise.all(workers.map((worker) => worker.stop()));
      await served.program.stop();
      const store = await open(file);
      stage.onEnd(() => store.close());
      for (const id of ids) {
        expect(await store.task(id).history(), `the ledger of ${id}`).toMatchObject([
          { attempt: 1, outcome: "done" },
        ]);
      }
    },
  );
});
