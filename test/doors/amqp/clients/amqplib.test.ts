import { connect, type Channel, type ConsumeMessage } from "amqplib";
import { describe, expect, onTestFinished, test } from "vitest";
import { latch } from "../../../stores.ts";
import { serveAmqp, STORES } from "./served.ts";

async function open(url: string) {
  const connection = await connect(url);
  connection.on("error", () => {});
  onTestFinished(() => connection.close().catch(() => {}));
  return connection;
}

/** Calls the handler for a number of messages, and resolves when all were handled. */
async function handle(
  channel: Channel,
  queue: string,
  count: number,
  handler: (message: ConsumeMessage) => void,
) {
  const all = latch();
  let left = count;
  const { consumerTag } = await channel.consume(queue, (message) => {
    handler(message!);
    if (--left === 0) all.open();
  });
  await all.promise;
  await channel.cancel(consumerTag);
}

describe.each(STORES)("amqplib on %s", (store) => {
  test("1,000 confirmed messages arrive in order, each once", async () => {
    const served = await serveAmqp(store);
    const connection = await open(served.url);
    const channel = await connection.createConfirmChannel();
    await channel.assertQueue("many");
    for (let at = 0; at < 1_000; at++)
      channel.sendToQueue("many", Buffer.from(`${at}`), { persistent: true });
    await channel.waitForConfirms();
    await channel.prefetch(100);
    const got: number[] = [];
    await handle(channel, "many", 1_000, (message) => {
      got.push(Number(message.content));
      channel.ack(message);
    });
    expect(got).toEqual(Array.from({ length: 1_000 }, (_, at) => at));
    expect((await channel.checkQueue("many")).messageCount).toBe(0);
  });

  test("a message published over AMQP is claimed by the library, with its headers, and back", async () => {
    const served = await serveAmqp(store);
    const channel = await (await open(served.url)).createConfirmChannel();
    await channel.assertQueue("both");
    const sent = { contentType: "application/json", headers: { trace: "t-1" }, messageId: "m" };
    channel.sendToQueue("both", Buffer.from('{"n":1}'), sent);
    await channel.waitForConfirms();
    const queue = served.dibs.queue<{ n: number }>("both");
    const [claim] = await queue.claim({ max: 1 });
    expect(claim!.data).toEqual({ n: 1 });
    expect(claim!.headers).toMatchObject({ trace: "t-1" });
    await claim!.ack();

    await queue.add({ n: 2 }, { headers: { from: "the library" } });
    const message = await channel.get("both");
    if (message === false) throw new Error("No message came.");
    expect(JSON.parse(message.content.toString())).toEqual({ n: 2 });
    expect(message.properties.contentType).toBe("application/json");
    expect(message.properties.headers).toMatchObject({ from: "the library" });
    channel.ack(message);
  });

  test("a rejected message goes back, or to the dead-letter exchange", async () => {
    const served = await serveAmqp(store);
    const channel = await (await open(served.url)).createConfirmChannel();
    await channel.assertQueue("graves");
    await channel.assertQueue("risky", { deadLetterExchange: "", deadLetterRoutingKey: "graves" });
    channel.sendToQueue("risky", Buffer.from("x"));
    await channel.waitForConfirms();
    await handle(channel, "risky", 2, (message) => channel.nack(message, false, !message.fields.redelivered));
    await handle(channel, "graves", 1, (message) => {
      const [death] = message.properties.headers!["x-death"]!;
      expect(death).toMatchObject({ queue: "risky", reason: "rejected", count: 1 });
      channel.ack(message);
    });
  });

  test("errors close the channel with RabbitMQ's code and text", async () => {
    const served = await serveAmqp(store);
    const channel = await (await open(served.url)).createChannel();
    const closed = new Promise<Error & { code: number }>((resolve) => channel.once("error", resolve));
    await expect(channel.checkQueue("nothing")).rejects.toThrow("no queue 'nothing' in vhost '/'");
    expect((await closed).code).toBe(404);
  });

  test("a closed connection returns what it held, redelivered", async () => {
    const served = await serveAmqp(store);
    const first = await open(served.url);
    const holding = await first.createConfirmChannel();
    await holding.assertQueue("held");
    holding.sendToQueue("held", Buffer.from("x"));
    await holding.waitForConfirms();
    expect(await holding.get("held")).toMatchObject({ fields: { redelivered: false } });
    await first.close();
    const channel = await (await open(served.url)).createChannel();
    await handle(channel, "held", 1, (message) => {
      expect(message.fields.redelivered).toBe(true);
      channel.ack(message);
    });
  });
});
