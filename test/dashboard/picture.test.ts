import { expect, onTestFinished, test, vi } from "vitest";
import { openPort } from "../../src/api/open.ts";
import type { EventTap, TapListener } from "../../src/dashboard/event-tap.ts";
import { Picture } from "../../src/dashboard/picture.ts";

/** A picture whose events and ticks are those of the test. */
async function makePicture() {
  const port = await openPort(":memory:", {});
  await port.declare("emails", {});
  let listener!: TapListener;
  const tap = { listen: (given: TapListener) => ((listener = given), () => {}) } as unknown as EventTap;
  const picture = new Picture(port, tap, "emails", []);
  onTestFinished(async () => {
    picture.close();
    await port.close();
  });
  await picture.ready;
  picture.tick();
  const move = (taskId: string, type: "task.added" | "task.done" = "task.added") =>
    listener.event({ type, at: 1, queue: "emails", taskId, attempt: 1 });
  return { port, picture, move, gap: (missed: number) => listener.gap(missed) };
}

interface Line {
  type: string;
  workers?: unknown[];
}

const parse = (line: string) => JSON.parse(line) as Line;
const typesOf = (lines: string[]) => lines.map((line) => parse(line).type);

test("a page gets each write once", async () => {
  const { picture, move } = await makePicture();
  const { lines, written } = picture.snapshot;
  expect(typesOf(lines)).toEqual(["queue"]);
  move("a");
  picture.tick();
  const next = picture.after(written);
  expect(typesOf(next.lines)).toContain("moves");
  expect(picture.after(next.written).lines).toEqual([]);
});

test("a page that is too far behind gets a gap and the state, whatever it missed", async () => {
  const { picture, move } = await makePicture();
  const { written } = picture.snapshot;
  for (let n = 0; n < 500; n++) {
    move(`task ${n}`);
    picture.tick();
  }
  const { lines } = picture.after(written);
  expect(typesOf(lines)).toEqual(["gap", "queue"]);
});

test("events that were missed are a gap in the order of the moves", async () => {
  const { picture, move, gap } = await makePicture();
  const { written } = picture.snapshot;
  move("a");
  gap(3);
  gap(4);
  move("b");
  picture.tick();
  const lines = picture
    .after(written)
    .lines.map((line) => JSON.parse(line) as { type: string; missed?: number });
  expect(lines.map(({ type }) => type).slice(0, 3)).toEqual(["moves", "gap", "moves"]);
  expect(lines[1]!.missed).toBe(7);
});

test("a task that ends while the state is read is not shown as running", async () => {
  const { port, picture, move, gap } = await makePicture();
  const info = { name: "mailer", queues: ["emails"], concurrency: 2, host: "host", pid: 1 };
  const session = await port.join({ id: "w1", ...info }, 30_000, () => {});
  const [ended, running] = await port.add([1, 2].map((n) => ({ queue: "emails", data: `${n}` })));
  await port.claim({ queues: ["emails"], max: 2, worker: "w1", session, wait: 0 });
  const list = port.list.bind(port);
  port.list = async (query) => {
    const page = await list(query);
    if (query.state === "claimed") move(ended!.id, "task.done");
    return page;
  };
  const { written } = picture.snapshot;
  gap(1);
  const state = await vi.waitUntil(() => {
    picture.tick();
    return picture
      .after(written)
      .lines.map(parse)
      .find(({ workers }) => workers?.length === 1);
  });
  expect(state).toMatchObject({
    isRunningComplete: true,
    workers: [{ running: [{ task: running!.id }] }],
  });
});
