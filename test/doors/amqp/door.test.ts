import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { connect as connectSecurely } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import { open } from "../../../src/index.ts";
import { openPort } from "../../../src/api/open.ts";
import type { Port } from "../../../src/core/port.ts";
import { readProperties, replaceProperties, shortstr } from "../../../src/doors/amqp/wire/properties.ts";
import { text, writeTable } from "../../../src/doors/amqp/wire/table.ts";
import type { ServerOptions } from "../../../src/server/options.ts";
import { makeCertificate } from "../../server/certificate.ts";
import { startServer } from "../../server/start.ts";
import { RawClient } from "./client.ts";

async function startDoor(
  options: { handshakeMs?: number } = {},
  prepare: (store: Port) => void = () => {},
  others: Partial<ServerOptions> = {},
) {
  const store = await openPort(":memory:", {});
  prepare(store);
  const server = await startServer(store, { amqp: { port: 0, ...options }, ...others });
  onTestFinished(async () => {
    await server.close();
    await store.close();
  });
  return { server, store, port: server.amqpPort! };
}

async function openClient(port: number): Promise<RawClient> {
  const client = new RawClient(port);
  await client.open();
  return client;
}

describe("the RabbitMQ door", () => {
  test("a message is published, consumed, and gone after its ack", async () => {
    const { port, store } = await startDoor();
    const client = await openClient(port);
    await client.declare("tasks");
    client.publish(
      1,
      "tasks",
      "hello",
      replaceProperties(Buffer.from([0, 0]), { contentType: shortstr("text/x") }),
    );
    client.consume("tasks", "c");
    await client.expect("basic.consume-ok");
    const { deliveryTag, redelivered, routingKey } = await client.expect("basic.deliver");
    expect({ deliveryTag, redelivered, routingKey }).toEqual({
      deliveryTag: 1,
      redelivered: false,
      routingKey: "tasks",
    });
    expect(await client.body()).toBe("hello");
    client.send(1, "basic.ack", { deliveryTag, multiple: false });
    client.send(1, "channel.close", { code: 200, text: "", classId: 0, methodId: 0 });
    await client.expect("channel.close-ok");
    expect((await store.stats("tasks")).depth).toMatchObject({ ready: 0, claimed: 0, done: 1 });
  });

  test("a message of a lost connection goes to another consumer, marked as redelivered", async () => {
    const { port } = await startDoor();
    const first = await openClient(port);
    await first.declare("tasks");
    first.publish(1, "tasks", "one");
    first.consume("tasks", "a");
    await first.expect("basic.consume-ok");
    await first.expect("basic.deliver");
    const second = await openClient(port);
    second.consume("tasks", "b");
    await second.expect("basic.consume-ok");
    first.socket.destroy();
    expect(await second.expect("basic.deliver")).toMatchObject({ redelivered: true });
  });

  test("a rejected message moves to its dead-letter exchange with its history", async () => {
    const { port, store } = await startDoor();
    const client = await openClient(port);
    await client.declare("dead");
    const table = writeTable([
      ["x-dead-letter-exchange", text("")],
      ["x-dead-letter-routing-key", text("dead")],
    ]);
    await client.declare("tasks", table);
    client.publish(1, "tasks", "bad");
    client.consume("tasks", "c");
    await client.expect("basic.consume-ok");
    const { deliveryTag } = await client.expect("basic.deliver");
    expect(await client.body()).toBe("bad");
    client.consume("dead", "d");
    await client.expect("basic.consume-ok");
    client.send(1, "basic.reject", { deliveryTag, requeue: false });
    expect(await client.expect("basic.deliver")).toMatchObject({ consumerTag: "d", routingKey: "dead" });
    const { items } = await store.queues();
    expect(items.map(({ name }) => name)).toEqual(["amqp:dead-letters", "dead", "tasks"]);
    const [task] = (await store.list({ queue: "dead", state: "claimed", limit: 1 })).tasks;
    const properties = readProperties(Buffer.from(task!.headers["dibs-amqp"]!.split(":")[0]!, "base64"));
    expect(properties.headers!.map(([name]) => name)).toContain("x-death");
  });

  test("a worker of dibs gets what AMQP published, and AMQP gets what dibs added", async () => {
    const { port, server } = await startDoor();
    const client = await openClient(port);
    await client.declare("shared");
    const dibs = await open(server.url);
    onTestFinished(() => dibs.close());
    const json = replaceProperties(Buffer.from([0, 0]), { contentType: shortstr("application/json") });
    client.publish(1, "shared", `{"n":1}`, json);
    const [claim] = await dibs.queue("shared").claim({ wait: "10s" });
    expect(claim!.data).toEqual({ n: 1 });
    await claim!.ack();
    await dibs.queue("shared").add({ n: 2 });
    client.consume("shared", "c");
    await client.expect("basic.consume-ok");
    await client.expect("basic.deliver");
    expect(JSON.parse(await client.body())).toEqual({ n: 2 });
  });

  test("basic.get counts as no consumer, not even while its session ends", async () => {
    const leaving = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    const { port } = await startDoor({}, (store) => {
      const leave = store.leave.bind(store);
      store.leave = async (...args) => {
        leaving.resolve();
        await ended.promise;
        return leave(...args);
      };
    });
    onTestFinished(() => ended.resolve());
    const client = await openClient(port);
    await client.declare("tasks");
    client.publish(1, "tasks", "one");
    client.send(1, "basic.get", { queue: "tasks", noAck: false });
    const { deliveryTag } = await client.expect("basic.get-ok");
    await client.body();
    client.send(1, "basic.ack", { deliveryTag, multiple: false });
    // After its answer, the ack is stored.
    await client.declare("tasks");
    const other = await openClient(port);
    other.socket.destroy();
    await leaving.promise;
    expect(await client.declare("tasks")).toMatchObject({ consumerCount: 0 });
  });

  test("a wrong password is refused with RabbitMQ's code", async () => {
    const { port } = await startDoor();
    const client = new RawClient(port);
    await client.logIn("guest", "wrong");
    expect(await client.expect("connection.close")).toMatchObject({ code: 403 });
  });

  test("a silent client is cut off", async () => {
    const { port } = await startDoor({ handshakeMs: 50 });
    const client = new RawClient(port);
    expect(await client.next()).toEqual({ name: "closed" });
  });

  /** A connection whose client sends nothing, and keeps its side open. */
  const dialSilently = async (port: number): Promise<Socket> => {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    socket.on("error", () => {});
    onTestFinished(() => void socket.destroy());
    await once(socket, "connect");
    return socket;
  };

  test("at the limit of connections, a new client replaces the oldest one that has not logged in", async () => {
    const { port } = await startDoor({}, undefined, { maxConnections: 3 });
    const first = await openClient(port);
    const silent = [await dialSilently(port), await dialSilently(port)];
    const replaced = once(silent[0]!, "end");
    const second = await openClient(port);
    await replaced;
    const third = await openClient(port);
    // All have logged in.
    const refused = new RawClient(port);
    expect(await refused.next()).toEqual({ name: "closed" });
    for (const client of [first, second, third]) await client.declare("tasks");
  });

  test("silent clients of a door with TLS do not keep others out", async () => {
    const tls = await makeCertificate();
    const { port } = await startDoor({}, undefined, { maxConnections: 3, tls });
    for (let count = 0; count < 10; count++) await dialSilently(port);
    const socket = connectSecurely({ port, host: "127.0.0.1", rejectUnauthorized: false });
    onTestFinished(() => void socket.destroy());
    await once(socket, "secureConnect");
  });

  test("a client that does not finish the TLS handshake is cut off", async () => {
    const tls = await makeCertificate();
    const { port } = await startDoor({ handshakeMs: 50 }, undefined, { tls });
    await once(await dialSilently(port), "end");
  });

  test("a large frame before the login is refused", async () => {
    const { port } = await startDoor();
    const client = new RawClient(port);
    client.greet();
    await client.expect("connection.start");
    client.socket.write(Buffer.from([1, 0, 0, 0, 0, 0x20, 0]));
    expect(await client.expect("connection.close")).toMatchObject({ code: 501 });
  });

  test("a consumer that reads nothing is sent little, and gets everything when it reads again", async () => {
    const { port, store } = await startDoor();
    const [reader, writer] = [await openClient(port), await openClient(port)];
    await reader.declare("large");
    reader.consume("large", "c");
    await reader.expect("basic.consume-ok");
    reader.socket.pause();
    const [count, body] = [1_000, "x".repeat(50_000)];
    for (let at = 0; at < count; at++) writer.publish(1, "large", body);
    // Answered after all of them were added, and after the door was offered them.
    const { messageCount } = await writer.declare("large");
    // 256 KiB wait in the server, and some MB in the kernel's buffers.
    expect(messageCount).toBeGreaterThan(count / 2);
    reader.socket.resume();
    for (let at = 0; at < count; at++) {
      const { deliveryTag } = await reader.expect("basic.deliver");
      expect((await reader.body()).length).toBe(body.length);
      reader.send(1, "basic.ack", { deliveryTag, multiple: false });
    }
    expect((await store.stats("large")).depth.ready).toBe(0);
  });

  test("a queue that does not exist closes the channel, and the connection continues", async () => {
    const { port } = await startDoor();
    const client = await openClient(port);
    client.send(1, "basic.get", { queue: "none", noAck: false });
    expect(await client.expect("channel.close")).toMatchObject({
      code: 404,
      text: "NOT_FOUND - no queue 'none' in vhost '/'",
    });
    client.send(1, "channel.close-ok", {});
    client.send(1, "channel.open", {});
    await client.expect("channel.open-ok");
  });
});
