// Leaves the store open and has nothing more to do: the process ends all the same.
import { openSqlite } from "../../../../src/engines/sqlite/engine.ts";

const [path] = process.argv.slice(2) as [string];
const engine = await openSqlite({ path });
const worker = { id: "w", name: "w", queues: ["q"], concurrency: 1, host: "here", pid: process.pid };
await engine.execute([{ verb: "join", worker, lease: 30_000 }]);
await engine.execute([{ verb: "queues", limit: 1_000 }]);
