import { join } from "node:path";
import type { Contender, Payload } from "../contender.ts";
import { load, missingPackage } from "./packages.ts";
import { freePort, missingProgram, startServer } from "./server.ts";

interface NatsConnection {
  flush(): Promise<void>;
  close(): Promise<void>;
}

interface Transport {
  connect(options: { servers: string }): Promise<NatsConnection>;
}

interface JetStream {
  jetstream(connection: NatsConnection): {
    publish(subject: string, body: string): Promise<unknown>;
    consumers: { get(stream: string, consumer: string): Promise<StreamConsumer> };
  };
  jetstreamManager(connection: NatsConnection): Promise<{
    streams: { add(config: Record<string, unknown>): Promise<unknown> };
    consumers: { add(stream: string, config: Record<string, unknown>): Promise<unknown> };
  }>;
}

interface StreamConsumer {
  consume(options: {
    max_messages: number;
    callback: (message: { json(): unknown; ack(): void; ackAck(): Promise<boolean> }) => void;
  }): Promise<{ close(): Promise<unknown> }>;
}

const CONSUMER = "workers";

export const nats: readonly Contender[] = [
  mode("NATS JetStream", { answered: false }),
  mode("NATS JetStream, acks answered", { answered: true }),
];

/**
 * `answered`: whether each ack is confirmed, as for most peers. By default none is.
 *
 * Debian's server (2.9) cannot sync each message: `sync_interval: always` came with 2.10.
 */
function mode(name: string, { answered }: { answered: boolean }): Contender {
  return {
    name,
    durability:
      "may lose the last two minutes in a crash of the machine (file storage, its default sync_interval)",
    synced: false,
    can: ["wakes"],
    missing: () =>
      missingProgram("nats-server") ?? missingPackage("@nats-io/transport-node", "@nats-io/jetstream"),
    async serve(folder) {
      const port = await freePort();
      const args = ["-js", "-a", "127.0.0.1", "-p", String(port), "-sd", join(folder, "jetstream")];
      return { address: `127.0.0.1:${port}`, stop: await startServer("nats-server", args, port) };
    },
    async connect(address, queue) {
      const connection = await (load("@nats-io/transport-node") as Transport).connect({ servers: address });
      const jetstream = load("@nats-io/jetstream") as JetStream;
      const manager = await jetstream.jetstreamManager(connection);
      // Both calls change nothing when another process has made the same.
      await manager.streams.add({
        name: queue,
        subjects: [queue],
        retention: "workqueue",
        storage: "file",
        num_replicas: 1,
      });
      await manager.consumers.add(queue, { durable_name: CONSUMER, ack_policy: "explicit" });
      const stream = jetstream.jetstream(connection);
      return {
        add: (data) => stream.publish(queue, JSON.stringify(data)),
        async work(handler, { concurrency, ahead = 0 }) {
          const consumer = await stream.consumers.get(queue, CONSUMER);
          const unanswered = new Set<Promise<boolean>>();
          const messages = await consumer.consume({
            max_messages: concurrency + ahead,
            callback(message) {
              handler(message.json() as Payload);
              if (!answered) return message.ack();
              const answer = message.ackAck().finally(() => unanswered.delete(answer));
              unanswered.add(answer);
            },
          });
          return {
            settled: async () => void (await Promise.all([connection.flush(), ...unanswered])),
            stop: async () => void (await messages.close()),
          };
        },
        close: () => connection.close(),
      };
    },
  };
}
