import { connect } from "amqplib";
import type { Contender, Payload } from "../contender.ts";
import { serveDibsAmqp } from "./dibs-server.ts";
import { missingRabbit, serveRabbit } from "./rabbitmq-server.ts";

const LEVELS = 10;

export const rabbitmq: readonly Contender[] = [
  mode("RabbitMQ", "classic", "on disk before every confirm (durable queue, persistent messages)"),
  mode("RabbitMQ, quorum", "quorum", "on disk before every confirm (quorum queue of one node)"),
];

/** The same client, with dibs as its server. */
export const dibsAmqp: Contender = {
  ...mode("dibs, AMQP", "classic", "on disk before every confirm"),
  missing: () => undefined,
  serve: serveDibsAmqp,
};

function mode(name: string, type: "classic" | "quorum", durability: string): Contender {
  return {
    name,
    durability,
    synced: true,
    // Quorum queues have no priorities, and neither kind has delays.
    can: type === "classic" ? ["priority", "wakes", "amqp"] : ["wakes", "amqp"],
    missing: missingRabbit,
    serve: serveRabbit,
    async connect(address, queue, { priorities = false } = {}) {
      const connection = await connect(address);
      const channel = await connection.createConfirmChannel();
      await channel.assertQueue(queue, {
        durable: true,
        ...(priorities && { maxPriority: LEVELS - 1 }),
        arguments: { "x-queue-type": type },
      });
      return {
        add: (data, { priority } = {}) =>
          new Promise<void>((resolve, reject) => {
            const options = { persistent: true, ...(priority !== undefined && { priority }) };
            channel.sendToQueue(queue, Buffer.from(JSON.stringify(data)), options, (error: Error | null) =>
              error ? reject(error) : resolve(),
            );
          }),
        async work(handler, { concurrency, ahead = 0 }) {
          await channel.prefetch(concurrency + ahead);
          const { consumerTag } = await channel.consume(queue, (message) => {
            if (message === null) return;
            handler(JSON.parse(message.content.toString()) as Payload);
            channel.ack(message);
          });
          // Acks are not answered. This request is, after them.
          const settled = async (): Promise<void> => void (await channel.checkQueue(queue));
          return { settled, stop: async () => void (await channel.cancel(consumerTag)) };
        },
        close: () => connection.close(),
      };
    },
  };
}
