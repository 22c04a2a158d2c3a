// The time after which a queue with x-expires is deleted, where the moment decides.

import { expect, onTestFinished, test } from "vitest";
import type { QueueRecord } from "../../../src/doors/amqp/topology.ts";
import { UnusedQueues } from "../../../src/doors/amqp/unused-queues.ts";

const RECORD: QueueRecord = {
  ...{ vhost: "/", name: "q", durable: false, autoDelete: false, owner: null },
  arguments: [["x-expires", { type: "I", value: 1 }]],
};

test("a queue that is used while its consumers are counted is not deleted", async () => {
  const reads: ((isUsed: boolean) => void)[] = [];
  let onRead = Promise.withResolvers<void>();
  const removed: string[] = [];
  const queues = new UnusedQueues({
    find: () => RECORD,
    isUsed: () => {
      onRead.resolve();
      return new Promise((resolve) => reads.push(resolve));
    },
    remove: async ({ name }) => void removed.push(name),
  });
  onTestFinished(() => queues.stop());
  queues.used("/", "q");
  await onRead.promise;
  onRead = Promise.withResolvers();
  queues.used("/", "q");
  reads[0]!(false);
  // The use has started the time again, and it is over: the consumers are counted once more.
  await onRead.promise;
  expect(removed).toEqual([]);
  reads[1]!(false);
  await expect.poll(() => removed).toEqual(["q"]);
});
