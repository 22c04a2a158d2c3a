// dibs answers as RabbitMQ did when its answers were recorded: the same scripts, compared method by method.

import { afterAll, beforeAll, describe, test } from "vitest";
import { isLong } from "../../../run/long.ts";
import { type Served, serveAmqp, STORES } from "../clients/served.ts";
import { expectedOf } from "./differences.ts";
import { runScript } from "./run-script.ts";
import { THEMES } from "./scripts/index.ts";

// PostgreSQL answers the same scripts in the long mode; the clients' tests run on both stores always.
const stores = isLong ? STORES : STORES.slice(0, 1);

describe.each(stores)("dibs on %s answers as RabbitMQ did", (store) => {
  const undoing: (() => Promise<void>)[] = [];
  let served: Served;
  beforeAll(async () => {
    served = await serveAmqp(store, (undo) => undoing.unshift(undo));
  });
  afterAll(async () => {
    for (const undo of undoing) await undo();
  });

  describe.concurrent.each(Object.keys(THEMES))("%s", (theme) => {
    for (const [name, script] of Object.entries(THEMES[theme]!)) {
      test(name, async ({ expect }) => {
        const expected = expectedOf(theme, name);
        expect(await runScript(served.url, script, expected)).toEqual(expected);
      });
    }
  });
});
