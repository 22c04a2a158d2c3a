import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { whyNo } from "./debian.ts";
import { Running } from "./program.ts";
import { serveAmqp, STORES } from "./served.ts";

const missing = await whyNo("python3-kombu");

describe.skipIf(missing).each(STORES)(`kombu on %s${missing ? ` (skipped: ${missing})` : ""}`, (store) => {
  test("producers, consumers, retries and simple queues work as kombu expects", async () => {
    const served = await serveAmqp(store);
    const file = join(import.meta.dirname, "programs", "kombu_tour.py");
    const lines = await Running.python(file, [served.url], served.port).finished();
    expect(lines.at(-1)).toBe("all good");
  });
});
