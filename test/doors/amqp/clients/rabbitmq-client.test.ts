import { Connection } from "rabbitmq-client";
import { describe, expect, onTestFinished, test } from "vitest";
import { latch } from "../../../stores.ts";
import { serveAmqp, STORES } from "./served.ts";

function open(url: string): Connection {
  const connection = new Connection(url);
  connection.on("error", () => {});
  onTestFinished(() => connection.close());
  return connection;
}

describe.each(STORES)("rabbitmq-client on %s", (store) => {
  test("a publisher with confirms and a consumer with retries", async () => {
    const served = await serveAmqp(store);
    const connection = open(served.url);
    const done = latch();
    const seen: [string, boolean][] = [];
    const consumer = connection.createConsumer(
      {
        queue: "events",
        queueOptions: { durable: true },
        qos: { prefetchCount: 2 },
        exchanges: [{ exchange: "events", type: "topic" }],
        queueBindings: [{ exchange: "events", routingKey: "users.*" }],
      },
      async ({ body, redelivered }: { body: string; redelivered: boolean }) => {
        seen.push([body, redelivered]);
        if (seen.length === 4) done.open();
        if (body === "1" && !redelivered) throw new Error("once more");
      },
    );
    onTestFinished(() => consumer.close());
    consumer.on("error", () => {});
    await new Promise((resolve) => consumer.once("ready", resolve));
    const publisher = connection.createPublisher({ confirm: true, maxAttempts: 2 });
    for (const body of ["0", "1", "2"])
      await publisher.send({ exchange: "events", routingKey: "users.new", durable: true }, body);
    await done.promise;
    expect(seen.filter(([body]) => body === "1").map(([, again]) => again)).toEqual([false, true]);
    await publisher.close();
  });

  test("a request and its answer through direct reply-to", async () => {
    const served = await serveAmqp(store);
    const connection = open(served.url);
    const server = connection.createConsumer({ queue: "squares" }, async (message, reply) => {
      await reply(Number(message.body) ** 2);
    });
    onTestFinished(() => server.close());
    await new Promise((resolve) => server.once("ready", resolve));
    const client = connection.createRPCClient({ confirm: true });
    const answers = await Promise.all([3, 4, 5].map((number) => client.send("squares", number)));
    expect(answers.map(({ body }) => body as number)).toEqual([9, 16, 25]);
    await client.close();
  });
});
