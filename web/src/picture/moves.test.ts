import { describe, expect, test } from "vitest";
import { newScene, type Scene } from "./cells.ts";
import { countMoves, newFlow, spacingOf } from "./flow.ts";
import { hueOf } from "./hue.ts";
import { applyMove, land, type Move } from "./moves.ts";
import { applyCounts, applyLine, applyWorkers } from "./snapshot.ts";

function played(moves: [Move["kind"], string, string?, number?][]): Scene {
  const scene = newScene();
  moves.forEach(([kind, task, worker, attempt], at) =>
    applyMove(scene, { kind, task, worker, attempt, at }, at),
  );
  return scene;
}

const heldBy = (scene: Scene, worker: string) => [...(scene.workers.get(worker)?.held.keys() ?? [])];
const line = (scene: Scene) => scene.line.map(({ id }) => id);

describe("a task in the picture", () => {
  test("a claimed task moves from the line to its worker, with the same cell", () => {
    const scene = played([
      ["added", "a"],
      ["added", "b"],
    ]);
    const cell = scene.line[0]!;
    applyMove(scene, { kind: "claimed", task: "a", worker: "w1", attempt: 1, at: 5 }, 5);
    expect(line(scene)).toEqual(["b"]);
    expect(scene.workers.get("w1")?.held.get("a")?.cell).toBe(cell);
    expect(scene.flights.at(-1)).toMatchObject({ cell, to: { at: "worker", id: "w1" }, duration: 160 });
  });

  test("a done task leaves with a flash", () => {
    const scene = played([
      ["added", "a"],
      ["claimed", "a", "w1"],
      ["done", "a", "w1"],
    ]);
    expect(heldBy(scene, "w1")).toEqual([]);
    expect(scene.flights.at(-1)?.look).toBe("passed");
  });

  test("a failed task waits under the line, and goes to another worker", () => {
    const scene = played([
      ["added", "a"],
      ["claimed", "a", "w1", 1],
      ["failed", "a", "w1", 1],
    ]);
    expect(scene.retries).toMatchObject([{ id: "a", attempt: 2 }]);
    expect(scene.flights.at(-1)).toMatchObject({ to: { at: "retries" }, arc: 46 });
    applyMove(scene, { kind: "claimed", task: "a", worker: "w2", attempt: 2, at: 9 }, 9);
    expect(scene.retries).toEqual([]);
    expect(heldBy(scene, "w2")).toEqual(["a"]);
  });

  test("a dead task falls into the tray, and comes back when it is redriven", () => {
    const scene = played([
      ["added", "a"],
      ["claimed", "a", "w1"],
      ["dead", "a", "w1"],
    ]);
    expect(scene).toMatchObject({ dead: 1, tray: [{ id: "a" }] });
    applyMove(scene, { kind: "ready", task: "a", at: 9 }, 9);
    expect(scene).toMatchObject({ dead: 0, tray: [], line: [{ id: "a" }] });
  });

  test("a task that two workers hold at once is marked at both", () => {
    const scene = played([
      ["added", "a"],
      ["claimed", "a", "w1"],
      ["claimed", "a", "w2"],
    ]);
    expect(scene.workers.get("w1")?.held.get("a")?.doubled).toBe(true);
    expect(scene.workers.get("w2")?.held.get("a")?.doubled).toBe(true);
  });

  test("a task keeps its place at the worker when another one ends", () => {
    const scene = played([
      ["claimed", "a", "w1"],
      ["claimed", "b", "w1"],
      ["done", "a", "w1"],
    ]);
    const slotOf = (task: string) => scene.workers.get("w1")!.held.get(task)!.slot;
    expect(slotOf("b")).toBe(0);
    scene.workers.get("w1")!.concurrency = 3;
    applyMove(scene, { kind: "claimed", task: "c", worker: "w1", at: 8 }, 8);
    applyMove(scene, { kind: "claimed", task: "d", worker: "w1", at: 8 }, 8);
    applyMove(scene, { kind: "claimed", task: "ahead", worker: "w1", at: 8 }, 8);
    applyMove(scene, { kind: "done", task: "c", worker: "w1", at: 9 }, 9);
    expect(scene.flights.at(-1)).toMatchObject({ to: { at: "above", slot: 1 } });
    expect(["b", "ahead", "d"].map(slotOf)).toEqual([0, 1, 2]);
  });

  test("a released task returns to the head", () => {
    const scene = played([
      ["added", "a"],
      ["added", "b"],
      ["claimed", "a", "w1"],
      ["released", "a", "w1"],
    ]);
    expect(line(scene)).toEqual(["a", "b"]);
  });
});

describe("what the store says", () => {
  const worker = { id: "w1", name: "w", rate: 1, concurrency: 1, claims: 0, isLost: false, running: [] };

  test("a snapshot replaces the line, and keeps the known cells", () => {
    const scene = played([
      ["added", "a"],
      ["added", "b"],
      ["claimed", "a", "w1"],
    ]);
    const known = scene.line[0]!;
    applyLine(scene, {
      cells: [
        { id: "c", attempt: 1 },
        { id: "b", attempt: 2 },
        { id: "a", attempt: 1 },
      ],
    });
    expect(line(scene)).toEqual(["c", "b"]);
    expect(scene.line[1]).toBe(known);
  });

  test("a snapshot removes a claimed task whose end the page has missed, and keeps one that was just claimed", () => {
    const scene = newScene();
    for (const [task, at] of [
      ["missed", 1_000],
      ["running", 1_000],
      ["new", 9_500],
    ] as const)
      applyMove(scene, { kind: "claimed", task, worker: "w1", attempt: 1, at }, at);
    const running = [{ task: "running", attempt: 1, since: 1_000 }];
    applyWorkers(scene, [{ ...worker, claims: 2, running }], 10_000, null);
    expect(heldBy(scene, "w1")).toEqual(["missed", "running", "new"]);
    applyWorkers(scene, [{ ...worker, claims: 2, running }], 10_000, 10_000);
    expect(heldBy(scene, "w1")).toEqual(["running", "new"]);
  });

  test("a worker that is gone from the snapshot fades, and is then removed", () => {
    const scene = newScene();
    applyWorkers(scene, [worker], 0);
    applyWorkers(scene, [], 1_000);
    expect(scene.workers.get("w1")).toMatchObject({ state: "lost", lostAt: 1_000 });
    applyWorkers(scene, [], 8_000);
    expect(scene.workers.size).toBe(0);
  });

  test("a snapshot counts what is not drawn", () => {
    const scene = newScene();
    applyCounts(scene, { ready: 100_000, later: 3, dead: 7 });
    expect(scene).toMatchObject({ ready: 100_000, later: 3, dead: 7 });
  });
});

test("flights that have landed are removed", () => {
  const scene = played([["added", "a"]]);
  land(scene, 1_000);
  expect(scene.flights).toEqual([]);
});

test("cells stream above 60 moves a second, and until the rate is clearly lower", () => {
  const flow = newFlow();
  countMoves(flow, 61, 0);
  expect(flow.streaming).toBe(true);
  countMoves(flow, 50, 1_001);
  expect(flow.streaming).toBe(true);
  countMoves(flow, 30, 2_100);
  expect(flow.streaming).toBe(false);
});

test("a flow is denser at a higher rate", () => {
  expect(spacingOf(20)).toBeLessThan(spacingOf(10));
  expect(spacingOf(0)).toBe(Infinity);
});

test("tasks that were added one after the other have different hues", () => {
  const idOf = (seq: number) =>
    `019a9c3e-1234-7000-8000-${(seq * 2 ** 26 + 99).toString(16).padStart(12, "0")}`;
  for (let seq = 0; seq < 50; seq++) expect(hueOf(idOf(seq))).not.toBe(hueOf(idOf(seq + 1)));
});
