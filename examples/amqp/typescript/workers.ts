// Two workers share a durable queue. Each gets the next task when it has acknowledged the one before.

import { connection } from "./connect.ts";

const producer = await connection.createConfirmChannel();
await producer.assertQueue("resize", { durable: true });
let left = 6;
const { promise: done, resolve } = Promise.withResolvers<void>();
const counts = { ada: 0, ben: 0 };
for (const worker of ["ada", "ben"] as const) {
  const channel = await connection.createChannel();
  await channel.prefetch(1);
  await channel.consume("resize", (message) => {
    counts[worker]++;
    channel.ack(message!);
    if (--left === 0) resolve();
  });
}
for (let number = 0; number < 6; number++)
  producer.sendToQueue("resize", Buffer.from(`image ${number}`), { persistent: true });
await done;
console.log(`both worked: ${counts.ada > 0 && counts.ben > 0}, all done: ${counts.ada + counts.ben === 6}`);
await connection.close();
