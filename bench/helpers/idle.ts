// A worker on a file that has no tasks, so that the memory of its process can be measured.

import { open } from "../../src/index.ts";
import { helperTask, say } from "../helper.ts";
import type { IdleTask } from "../scenarios/memory.ts";

const { path } = helperTask() as IdleTask;
const dibs = await open(path);
await dibs.queue("work").work(() => {}).ready;
say("ready");
