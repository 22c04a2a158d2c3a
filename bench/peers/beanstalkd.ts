import type { Contender, Payload } from "../contender.ts";
import { Acks } from "./acks.ts";
import { BeanstalkClient } from "./beanstalk-client.ts";
import { freePort, missingProgram, startServer } from "./server.ts";

/** Bytes of a job, at most: the default of 64 KiB is too small for one scenario. */
const LARGEST_JOB = 1_048_576;
const LOWEST_PRIORITY = 9;

export const beanstalkd: readonly Contender[] = [
  mode({
    name: "beanstalkd",
    durability:
      "may lose the last 50 ms of work in a crash of the machine (-b, its default of an fsync each 50 ms)",
    synced: false,
  }),
  mode({
    name: "beanstalkd, synced",
    durability: "on disk before every answer (-b -f0, an fsync for each command)",
    synced: true,
  }),
];

function mode({ name, durability, synced }: Pick<Contender, "name" | "durability" | "synced">): Contender {
  return {
    name,
    durability,
    synced,
    // Its delays are whole seconds.
    can: ["priority", "wakes"],
    missing: () => missingProgram("beanstalkd"),
    async serve(folder) {
      const port = await freePort();
      const args = [
        "-l",
        "127.0.0.1",
        "-p",
        String(port),
        "-b",
        folder,
        "-z",
        String(LARGEST_JOB),
        ...(synced ? ["-f0"] : []),
      ];
      return { address: String(port), stop: await startServer("beanstalkd", args, port) };
    },
    async connect(address, tube) {
      const producer = await BeanstalkClient.connect(Number(address));
      await producer.use(tube);
      return {
        // For this peer, lower is sooner.
        add: (data, { priority = 0 } = {}) => producer.put(JSON.stringify(data), LOWEST_PRIORITY - priority),
        async work(handler, { concurrency }) {
          const acks = new Acks();
          const clients = await Promise.all(
            Array.from({ length: concurrency }, () => consume(Number(address), tube, handler, acks)),
          );
          return {
            settled: () => acks.settled(),
            stop: async () => clients.forEach((client) => client.close()),
          };
        },
        close: async () => producer.close(),
      };
    },
  };
}

/**
 * One connection per running task: a waiting `reserve` blocks every later command. The next `reserve` is sent in the
 * same packet as the delete, so that a task costs one round trip.
 */
async function consume(
  port: number,
  tube: string,
  handler: (data: Payload) => void,
  acks: Acks,
): Promise<BeanstalkClient> {
  const client = await BeanstalkClient.connect(port);
  await client.watch(tube);
  void work().catch((error: unknown) => {
    if (!client.isClosed) console.error(error);
  });
  return client;

  async function work(): Promise<void> {
    for (let next = client.reserve(); ;) {
      const { id, body } = await next;
      acks.begin();
      handler(JSON.parse(body) as Payload);
      const deleted = client.delete(id);
      next = client.reserve();
      // Closing the connection does not wait for it.
      next.catch(() => {});
      await deleted;
      acks.end();
    }
  }
}
