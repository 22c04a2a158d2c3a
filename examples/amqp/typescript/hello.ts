// One program sends, another receives: a queue by name.

import { connection } from "./connect.ts";

const channel = await connection.createConfirmChannel();
await channel.assertQueue("hello");
channel.sendToQueue("hello", Buffer.from("Hello, queue!"));
await channel.waitForConfirms();
const message = await channel.get("hello", { noAck: true });
console.log(message === false ? "nothing" : message.content.toString());
await connection.close();
