import { AMQPClient } from "@cloudamqp/amqp-client";
import { describe, expect, onTestFinished, test } from "vitest";
import { latch } from "../../../stores.ts";
import { serveAmqp, STORES } from "./served.ts";

describe.each(STORES)("@cloudamqp/amqp-client on %s", (store) => {
  test("publish with confirms, subscribe, get and errors", async () => {
    const served = await serveAmqp(store);
    const connection = await new AMQPClient(served.url).connect();
    onTestFinished(() => connection.close());
    const channel = await connection.channel();
    await channel.confirmSelect();
    await channel.queueDeclare("tour", { durable: true });
    await channel.prefetch(1);
    const all = latch();
    const got: string[] = [];
    const consumer = await channel.basicConsume("tour", { noAck: false }, async (message) => {
      got.push(message.bodyString()!);
      await message.ack();
      if (got.length === 5) all.open();
    });
    for (let at = 0; at < 5; at++)
      await channel.basicPublish("", "tour", `${at}`, { deliveryMode: 2, headers: { at } });
    await all.promise;
    expect(got).toEqual(["0", "1", "2", "3", "4"]);
    await consumer.cancel();
    await channel.basicPublish("", "tour", "last");
    expect((await channel.basicGet("tour", { noAck: true }))?.bodyString()).toBe("last");
    expect(await channel.basicGet("tour")).toBeNull();
    const other = await connection.channel();
    await expect(other.queueDeclare("nothing", { passive: true })).rejects.toThrow(
      "no queue 'nothing' in vhost '/'",
    );
  });
});
