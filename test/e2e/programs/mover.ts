// Moves one store to another, and tells of every batch and of what it waits for. It is killed in the midst of that.

import { move } from "../../../src/index.ts";
import { letGo, readOptions, say } from "./say.ts";

const { from, to } = readOptions() as { from: string; to: string };
say("ready");
const moved = await move(from, to, {
  onProgress: (progress) => say("batch", progress),
  onWait: ({ running, error }) => say("wait", { running, code: error?.code }),
});
say("moved", moved);
letGo();
