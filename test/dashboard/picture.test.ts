import { expect, onTestFinished, test } from "vitest";
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
  const move = (taskId: string) =>
    listener.event({ type: "task.added", at: 1, queue: "emails", taskId, attempt: 1 });
  return { picture, move, gap: (missed: number) => listener.gap(missed) };
}

const typesOf = (lines: string[]) => lines.map((line) => (JSON.parse(line) as { type: string }).type);

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
