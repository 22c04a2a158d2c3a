import type { Contender, Payload } from "../contender.ts";
import { load, missingPackage } from "./packages.ts";
import { missingRabbit, serveRabbit } from "./rabbitmq-server.ts";

interface Amqp {
  connect(url: string): Promise<{
    createConfirmChannel(): Promise<Channel>;
    close(): Promise<void>;
  }>;
}

interface Channel {
  assertQueue(
    name: string,
    options: { durable: boolean; maxPriority?: number; arguments: Record<string, unknown> },
  ): Promise<unknown>;
  checkQueue(name: string): Promise<unknown>;
  sendToQueue(
    name: string,
    body: Buffer,
    options: { persistent: boolean; priority?: number },
    confirmed: (error: Error | null) => void,
  ): boolean;
  prefetch(count: number): Promise<unknown>;
  consume(name: string, handler: (message: Message | null) => void): Promise<{ consumerTag: string }>;
  cancel(consumerTag: string): Promise<unknown>;
  ack(message: Message): void;
}

interface Message {
  content: Buffer;
}

const LEVELS = 10;

export const rabbitmq: readonly Contender[] = [
  mode("RabbitMQ", "classic", "on disk before every confirm (durable queue, persistent messages)"),
  mode("RabbitMQ, quorum", "quorum", "on disk before every confirm (quorum queue of one node)"),
];

function mode(name: string, type: "classic" | "quorum", durability: string): Contender {
  return {
    name,
    durability,
    synced: true,
    // Quorum queues have no priorities, and neither kind has delays.
    can: type === "classic" ? ["priority", "wakes"] : ["wakes"],
    missing: () => missingRabbit() ?? missingPackage("amqplib"),
    serve: serveRabbit,
    async connect(address, queue, { priorities = false } = {}) {
      const connection = await (load("amqplib") as Amqp).connect(address);
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
            channel.sendToQueue(queue, Buffer.from(JSON.stringify(data)), options, (error) =>
              error ? reject(error) : resolve(),
            );
          }),
        async work(handler, { concurrency, ahead }) {
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
