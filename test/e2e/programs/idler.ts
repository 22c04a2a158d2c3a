// Has a store open and does nothing with it, until it is killed.

import { open } from "../../../src/index.ts";
import { readOptions, say } from "./say.ts";

const { file } = readOptions() as { file: string };

await open(file);
say("open");
setInterval(() => {}, 60_000);
