import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { whyNo } from "./debian.ts";
import { Running } from "./program.ts";
import { serveAmqp, STORES } from "./served.ts";

const SEEDS = join(import.meta.dirname, "../seeds");
const PROGRAMS = join(import.meta.dirname, "programs");
const WORKERS = ["Worker-1", "Worker-2", "Worker-3"];

const missing = await whyNo("python3-pika");

const startWorkers = async (port: number): Promise<Running[]> => {
  const workers = WORKERS.map((name) => Running.python(join(SEEDS, "consumer_worker.py"), [name], port));
  await Promise.all(workers.map((worker) => worker.says(/waiting for messages/)));
  return workers;
};

const finished = (worker: Running): number =>
  worker.lines.filter((line) => line.includes("finished processing")).length;

describe.skipIf(missing).each(STORES)(`pika on %s${missing ? ` (skipped: ${missing})` : ""}`, (store) => {
  test("the work queue programs run as they are: each of three workers gets its share", async () => {
    const served = await serveAmqp(store);
    const workers = await startWorkers(served.port);
    await Running.python(join(SEEDS, "producer_multiple.py"), [], served.port).finished();
    // Eight tasks of 2 s each for three workers, of which each holds one at a time.
    await Promise.all(workers.map((worker) => worker.says(/finished processing/, 2)));
    await expect.poll(() => workers.reduce((sum, worker) => sum + finished(worker), 0)).toBe(8);
    expect(workers.map(finished).sort((a, b) => a - b)).toEqual([2, 3, 3]);
    const received = workers.flatMap(({ lines }) =>
      lines.flatMap((line) => /received: Task (\d)/.exec(line)?.[1] ?? []),
    );
    expect(received.sort()).toEqual(["1", "2", "3", "4", "5", "6", "7", "8"]);
  });

  test("a killed worker's message goes to another worker", async () => {
    const served = await serveAmqp(store);
    const [victim, ...others] = await startWorkers(served.port);
    await Running.python(join(SEEDS, "producer_multiple.py"), [], served.port).finished();
    await victim!.says(/received/);
    const held = /received: (.*)/.exec(victim!.lines.at(-1)!)![1]!;
    await victim!.kill();
    await expect
      .poll(() => others.flatMap(({ lines }) => lines).filter((line) => line.includes(held)))
      .toHaveLength(1);
    await expect
      .poll(() => others.reduce((sum, worker) => sum + finished(worker), 0))
      .toBe(8 - finished(victim!));
  });

  test("a slow worker gets fewer messages than a fast one", async () => {
    const served = await serveAmqp(store);
    const start = (name: string, ms: number): Running =>
      Running.python(join(PROGRAMS, "pika_worker.py"), ["speeds", `${ms}`], served.port, { NAME: name });
    const [fast, slow] = [start("fast", 10), start("slow", 400)];
    await Promise.all([fast.says(/ready/), slow.says(/ready/)]);
    await served.dibs.queue("speeds").addMany(Array.from({ length: 40 }, (_, at) => ({ data: at })));
    const done = (worker: Running): number => worker.lines.filter((line) => line.startsWith("done")).length;
    await expect.poll(() => done(fast) + done(slow)).toBe(40);
    expect(done(fast)).toBeGreaterThan(2 * done(slow));
  });

  test("connections, properties, returns, confirms, transactions and cancels work as pika expects", async () => {
    const served = await serveAmqp(store);
    const lines = await Running.python(join(PROGRAMS, "pika_tour.py"), [], served.port).finished();
    expect(lines.at(-1)).toBe("all good");
  });
});
