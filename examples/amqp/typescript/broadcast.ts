// A fanout exchange gives every listener its own copy.

import { connection } from "./connect.ts";

const channel = await connection.createConfirmChannel();
await channel.assertExchange("news", "fanout");
const listeners: string[] = [];
for (let count = 0; count < 2; count++) {
  const { queue } = await channel.assertQueue("", { exclusive: true });
  await channel.bindQueue(queue, "news", "");
  listeners.push(queue);
}
channel.publish("news", "", Buffer.from("a new version is out"));
await channel.waitForConfirms();
for (const [number, queue] of listeners.entries()) {
  const message = await channel.get(queue, { noAck: true });
  console.log(`listener ${number}: ${message === false ? "nothing" : message.content.toString()}`);
}
await connection.close();
