import { expect, test } from "vitest";
import type { ReconnectingStore } from "../../../src/engines/postgres/batch/reconnecting-store.ts";
import { Sender } from "../../../src/engines/postgres/batch/sender.ts";

/** Answers every batch at once, and each query with what it returns. */
const STORE = {
  isLost: false,
  run: async () => ({ outcomes: ["an answer"] }),
  query: async (work: (store: unknown) => unknown) => work(undefined),
} as unknown as ReconnectingStore;

test("a sender keeps no answers of batches and queries in memory", async () => {
  const sender = new Sender(STORE);
  await sender.run([]);
  expect(await sender.answered).toBeUndefined();
  await sender.query(async () => "an answer");
  await sender.runCoalesced([]);
  expect(await sender.answered).toBeUndefined();
});
