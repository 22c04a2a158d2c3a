// Publishes numbers, several at a time, until it is killed. Reports what was acknowledged, and how many groups it
// reached.

import { open } from "../../../src/index.ts";
import { readOptions, say } from "./say.ts";

const { file, name, topic } = readOptions() as { file: string; name: string; topic: string };
const WIDTH = 8;

const dibs = await open(file);
const news = dibs.topic<string>(topic);
/** Set when the test has subscribed another group: publishes that begin from then on must reach it. */
let marked = false;
process.on("message", () => {
  marked = true;
  say("marked");
});

let n = 0;
await Promise.all(
  Array.from({ length: WIDTH }, async () => {
    for (;;) {
      const data = `${name}-${n++}`;
      const wasMarked = marked;
      const { reached } = await news.publish(data);
      say("published", { data, reached, marked: wasMarked });
    }
  }),
);
