import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { whyNo } from "./debian.ts";
import { serveAmqp, STORES } from "./served.ts";

const missing = await whyNo("amqp-tools");
const execute = promisify(execFile);

describe.skipIf(missing).each(STORES)(
  `amqp-tools on %s${missing ? ` (skipped: ${missing})` : ""}`,
  (store) => {
    test("declare, publish, get, consume and delete from the shell", async () => {
      const served = await serveAmqp(store);
      const run = async (tool: string, ...args: string[]): Promise<string> =>
        (await execute(`/usr/bin/amqp-${tool}`, ["--url", served.url, ...args])).stdout;
      expect(await run("declare-queue", "--queue", "shell", "--durable")).toBe("shell\n");
      await run("publish", "--routing-key", "shell", "--persistent", "--body", "one");
      expect(await run("get", "--queue", "shell")).toBe("one");
      for (const body of ["two", "three"]) await run("publish", "--routing-key", "shell", "--body", body);
      expect(await run("consume", "--queue", "shell", "--count", "2", "--prefetch-count", "1", "cat")).toBe(
        "twothree",
      );
      await served.dibs.queue("shell").add({ from: "the library" });
      expect(await run("get", "--queue", "shell")).toBe('{"from":"the library"}');
      expect(await run("delete-queue", "--queue", "shell")).toBe("0\n");
    });
  },
);
