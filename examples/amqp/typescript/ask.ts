// A request and its answer, without a queue for answers: RabbitMQ's direct reply-to.

import { connection } from "./connect.ts";

const server = await connection.createChannel();
await server.assertQueue("squares");
await server.consume("squares", (message) => {
  const { replyTo, correlationId } = message!.properties as { replyTo: string; correlationId: string };
  const answer = `${Number(message!.content.toString()) ** 2}`;
  server.sendToQueue(replyTo, Buffer.from(answer), { correlationId });
  server.ack(message!);
});

const client = await connection.createChannel();
const { promise: answered, resolve } = Promise.withResolvers<string>();
const request = crypto.randomUUID();
const answers = "amq.rabbitmq.reply-to";
await client.consume(
  answers,
  (message) => {
    if (message!.properties.correlationId === request) resolve(message!.content.toString());
  },
  { noAck: true },
);
client.sendToQueue("squares", Buffer.from("12"), { replyTo: answers, correlationId: request });
console.log(`12 squared is ${await answered}`);
await connection.close();
