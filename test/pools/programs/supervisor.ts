// A process that runs one pool. Tests kill it.

import { open, type PoolOptions } from "../../../src/index.ts";

const { file, options } = JSON.parse(process.argv[2]!) as { file: string; options: PoolOptions };
const dibs = await open(file);
const pool = dibs.pool(options);
process.on("SIGTERM", () => void dibs.close());
await pool.ready;
process.stdout.write("ready\n");
