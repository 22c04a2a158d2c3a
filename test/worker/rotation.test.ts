import { expect, test } from "vitest";
import { Rotation } from "../../src/worker/rotation.ts";

const names = (count: number) => Array.from({ length: count }, (_, i) => `${i}`);
const from = (queues: readonly string[]) => queues.map((queue) => ({ queue }));

test("with more queues than tasks, all queues have their turn before one has its second", () => {
  const rotation = new Rotation(names(10));
  const firsts = Array.from({ length: 5 }, () => {
    const turn = rotation.next(4);
    expect(turn.share).toBe(1);
    rotation.took(turn, from(turn.queues.slice(0, 4)));
    return turn.queues[0];
  });
  expect(firsts).toEqual(["0", "4", "8", "2", "6"]);
});

test("a claim that passed over empty queues is followed by one behind its last task", () => {
  const rotation = new Rotation(names(10));
  const turn = rotation.next(2);
  rotation.took(turn, from(["6", "8"]));
  expect(rotation.next(2).queues[0]).toBe("9");
});

test("a claim that ended early, because its answer was full, is followed by one behind its last task", () => {
  const rotation = new Rotation(names(64));
  const served = new Set<string>();
  // Each claim may be of 32 queues, and two tasks of eight queues fill its answer.
  for (let claims = 0; claims < 8; claims++) {
    const turn = rotation.next(64);
    const tasks = turn.queues.slice(0, 8).flatMap((queue) => [{ queue }, { queue }]);
    rotation.took(turn, tasks);
    for (const { queue } of tasks) served.add(queue);
  }
  expect(served.size).toBe(64);
});

test("a second claim, sent while the first is in progress, begins behind it", () => {
  const rotation = new Rotation(names(100));
  const first = rotation.next(40);
  const second = rotation.next(40);
  expect(second.queues[0]).toBe("40");
  rotation.took(first, from(first.queues.slice(0, 40)));
  rotation.took(second, from(second.queues.slice(0, 40)));
  expect(rotation.next(40).queues[0]).toBe("80");
});

test("if all queues have their turn in one claim, another one begins each time", () => {
  const rotation = new Rotation(names(3));
  const firsts = Array.from({ length: 4 }, () => rotation.next(30).queues[0]);
  expect(firsts).toEqual(["0", "1", "2", "0"]);
});

test.each([
  [1, 10, 1],
  [10, 1_000, 1],
  [100, 1_000, 3],
  [150, 1_000, 4],
  [150, 10, 15],
  [7, 2, 4],
])("a claim of %i tasks from %i queues takes up to %i of each", (max, queues, share) => {
  expect(new Rotation(names(queues)).next(max).share).toBe(share);
});
