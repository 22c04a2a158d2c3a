// Opens the store, adds one task, and ends by itself: an open store that is closed leaves nothing running.
import { openSqlite } from "../../../../src/engines/sqlite/engine.ts";

const [path, queue] = process.argv.slice(2) as [string, string];
const engine = await openSqlite({ path });
await engine.execute([{ verb: "add", tasks: [{ queue, data: "{}" }] }]);
await engine.close();
