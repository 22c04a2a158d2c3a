import { open } from "../../src/index.ts";
import { now } from "./pick-up.ts";

const dibs = await open(process.argv[2]);
const worker = dibs.queue<number>("bench").work(({ data }) => {
  process.send!(now() - data);
});
await worker.ready;
process.send!("ready");
