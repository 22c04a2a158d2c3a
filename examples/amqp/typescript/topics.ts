// A topic exchange: patterns with * for one word, and # for any number of words.

import { connection } from "./connect.ts";

const channel = await connection.createConfirmChannel();
await channel.assertExchange("animals", "topic");
const patterns = ["*.orange.*", "lazy.#"];
for (const pattern of patterns) {
  await channel.assertQueue(pattern, { exclusive: true });
  await channel.bindQueue(pattern, "animals", pattern);
}
for (const key of ["quick.orange.rabbit", "lazy.brown.fox", "lazy", "quick.brown.fox"])
  channel.publish("animals", key, Buffer.from(key));
await channel.waitForConfirms();
for (const pattern of patterns) {
  const found: string[] = [];
  for (;;) {
    const message = await channel.get(pattern, { noAck: true });
    if (message === false) break;
    found.push(message.content.toString());
  }
  console.log(`${pattern}: ${found.join(", ")}`);
}
await connection.close();
