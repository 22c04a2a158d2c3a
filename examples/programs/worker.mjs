// A worker in Node. Run it with: dibs work orders -- node worker.mjs
// The payload is on standard input: {"order": 7, "amount": 12.5}
import { text } from "node:stream/consumers";

const { order } = JSON.parse(await text(process.stdin));
if (order === undefined) {
  console.error("the payload has no order");
  process.exit(65); // Retrying is useless: a dead letter.
}
console.error(`attempt ${process.env.DIBS_ATTEMPT} of order ${order}`);
console.log(JSON.stringify({ order, shipped: true, by: "node" }));
