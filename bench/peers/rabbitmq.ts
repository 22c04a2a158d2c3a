import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Contender, Payload, Service } from "../contender.ts";
import { load, missingPackage } from "./packages.ts";
import { freePorts, missingProgram, startServer } from "./server.ts";

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
/** Debian's rabbitmq-server switches to its own user. The script behind it runs as the caller. */
const SCRIPTS = "/usr/lib/rabbitmq/bin/rabbitmq-server";

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
    missing: () =>
      missingProgram("rabbitmq-server") ?? missingProgram("epmd", "erlang-base") ?? missingPackage("amqplib"),
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

/** Erlang's name service would stay as a daemon, so it is started and stopped here, on its own port. */
async function serveRabbit(folder: string): Promise<Service> {
  const [port, namePort, nodePort] = (await freePorts(3)) as [number, number, number];
  const home = join(folder, "home");
  mkdirSync(home);
  const env = {
    HOME: home,
    ERL_EPMD_PORT: String(namePort),
    ERL_EPMD_ADDRESS: "127.0.0.1",
    RABBITMQ_NODENAME: `bench${port}@localhost`,
    RABBITMQ_NODE_IP_ADDRESS: "127.0.0.1",
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_DIST_PORT: String(nodePort),
    RABBITMQ_MNESIA_BASE: join(folder, "mnesia"),
    RABBITMQ_LOG_BASE: join(folder, "log"),
    RABBITMQ_CONFIG_FILE: join(folder, "rabbitmq"),
    RABBITMQ_ADVANCED_CONFIG_FILE: join(folder, "advanced"),
    RABBITMQ_CONF_ENV_FILE: join(folder, "rabbitmq-env.conf"),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, "enabled_plugins"),
    RABBITMQ_PID_FILE: join(folder, "pid"),
  };
  const stopNames = await startServer("epmd", ["-port", String(namePort)], namePort, env);
  try {
    const script = existsSync(SCRIPTS) ? SCRIPTS : "rabbitmq-server";
    const stopRabbit = await startServer(script, [], port, env);
    return {
      address: `amqp://guest:guest@127.0.0.1:${port}`,
      async stop() {
        await stopRabbit();
        await stopNames();
      },
    };
  } catch (error) {
    await stopNames();
    throw error;
  }
}
