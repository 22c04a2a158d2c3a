import { open } from "../../src/index.ts";

const seen: string[] = [];
const dibs = await open(process.argv[2]);
const worker = dibs.queue("bench").work(({ id }) => void seen.push(id), { concurrency: 100, prefetch: 100 });
await worker.ready;
process.on("message", () => process.send!(seen));
process.send!("ready");
