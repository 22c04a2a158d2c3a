import { expect, test } from "vitest";
import { systemClock } from "../../src/engine/system-clock.ts";
import { Stream } from "../../src/protocol/stream.ts";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function makeStream() {
  const written: string[] = [];
  let onWrite = (): void => {};
  const stream = new Stream(systemClock);
  stream.attach((text) => {
    written.push(text);
    onWrite();
  }, 0);
  const nextWrite = (): Promise<void> => new Promise((resolve) => (onWrite = resolve));
  return { stream, written, nextWrite };
}

test("messages sent at the same moment share a frame with the acknowledgement of received ones", async () => {
  const { stream, written } = makeStream();
  expect(stream.receive({ seq: 1, ack: 0, items: ["a", "b"] })).toEqual(["a", "b"]);
  stream.send('"x"');
  stream.send('"y"');
  await turn();
  expect(written).toEqual(['{"seq":1,"ack":1,"items":["x","y"]}']);
});

test("an acknowledgement without other messages is sent soon, once for everything received", async () => {
  const { stream, written, nextWrite } = makeStream();
  const acknowledged = nextWrite();
  stream.receive({ seq: 1, ack: 0, items: ["a"] });
  stream.receive({ seq: 2, ack: 0, items: ["b"] });
  await acknowledged;
  expect(written).toEqual(['{"ack":2}']);
});

test("a ping is answered at once", async () => {
  const { stream, written } = makeStream();
  expect(stream.receive({ seq: 1, ack: 0 })).toEqual([]);
  await turn();
  expect(written).toEqual(['{"ack":1}']);
});

test("unacknowledged messages are sent again through the next connection, and duplicates are dropped", async () => {
  const { stream } = makeStream();
  stream.send('"x"');
  await turn();
  stream.detach();
  const again: string[] = [];
  stream.attach((text) => again.push(text), 0);
  expect(again).toEqual(['{"seq":1,"ack":0,"items":["x"]}']);
  expect(stream.receive({ seq: 1, ack: 1, items: ["a"] })).toEqual(["a"]);
  expect(stream.receive({ seq: 1, ack: 1, items: ["a"] })).toEqual([]);
  expect(stream.backlog).toBe(0);
});
