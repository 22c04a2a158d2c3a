// The six ideas of the RabbitMQ tutorials, in TypeScript and in Python (examples/amqp): each runs against a server.

import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { PYTHON, whyNo } from "./debian.ts";
import { Running } from "./program.ts";
import { serveAmqp } from "./served.ts";

const EXAMPLES = join(import.meta.dirname, "../../../../examples/amqp");
const BOTH_WORKED = ["both worked: true, all done: true"];
const ALL_DONE = ["two workers did image 0, image 1, image 2, image 3, image 4, image 5"];

const SAYS: Record<string, string[]> = {
  hello: ["Hello, queue!"],
  broadcast: ["listener 0: a new version is out", "listener 1: a new version is out"],
  severities: ["everything: 3", "errors: 1"],
  topics: ["*.orange.*: quick.orange.rabbit", "lazy.#: lazy.brown.fox, lazy"],
  ask: ["12 squared is 144"],
};

const missing = await whyNo("python3-pika");

describe("the AMQP examples run", () => {
  test("in TypeScript", async () => {
    const { url } = await serveAmqp("a file");
    for (const [name, says] of Object.entries({ ...SAYS, workers: BOTH_WORKED })) {
      const file = join(EXAMPLES, "typescript", `${name}.ts`);
      const lines = await new Running(process.execPath, [file], { AMQP_URL: url }).finished();
      expect([name, ...lines]).toEqual([name, ...says]);
    }
  });

  test.skipIf(missing)(`in Python${missing ? ` (skipped: ${missing})` : ""}`, async () => {
    const { url } = await serveAmqp("PostgreSQL");
    for (const [name, says] of Object.entries({ ...SAYS, workers: ALL_DONE })) {
      const file = join(EXAMPLES, "python", `${name}.py`);
      const lines = await new Running(PYTHON, ["-u", file], { AMQP_URL: url }).finished();
      expect([name, ...lines]).toEqual([name, ...says]);
    }
  });
});
