// What outlives a server: the redelivered mark, and messages that expired meanwhile. And what a server decides: virtual
// hosts, and when it blocks publishers.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "amqplib";
import { describe, expect, onTestFinished, test } from "vitest";
import { openPort } from "../../../src/api/open.ts";
import { DibsError } from "../../../src/core/errors/errors.ts";
import type { Port } from "../../../src/core/port.ts";
import { markStoreFault } from "../../../src/core/errors/store-fault.ts";
import { queueOf } from "../../../src/doors/amqp/names.ts";
import { freshSchema } from "../../postgres/shared.ts";
import { startServer } from "../../server/start.ts";
import { STORES, type StoreName } from "./clients/served.ts";

async function openStore(store: StoreName): Promise<Port> {
  const folder = mkdtempSync(join(tmpdir(), "dibs-amqp-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const { url, schema } =
    store === "a file"
      ? { url: join(folder, "work.db"), schema: undefined }
      : await freshSchema((undo) => onTestFinished(undo));
  const port = await openPort(url, schema === undefined ? {} : { schema });
  onTestFinished(() => port.close());
  return port;
}

type Amqp = NonNullable<NonNullable<Parameters<typeof startServer>[1]>["amqp"]>;

/** A server, and a client of it. */
async function serve(store: Port, options: Partial<Amqp> = {}, vhost = "") {
  const server = await startServer(store, { amqp: { port: 0, ...options } });
  onTestFinished(() => server.close());
  const dial = (to = vhost) => connect(`amqp://guest:guest@127.0.0.1:${server.amqpPort}/${to}`);
  const connection = await dial();
  connection.on("error", () => {});
  return { server, dial, connection, channel: await connection.createConfirmChannel() };
}

describe.each(STORES)("a store on %s, behind one server after another", (name) => {
  test("a returned message is marked as redelivered by the next server", async () => {
    const store = await openStore(name);
    const first = await serve(store);
    await first.channel.assertQueue("q");
    first.channel.sendToQueue("q", Buffer.from("1"));
    await first.channel.waitForConfirms();
    const got = await first.channel.get("q");
    first.channel.nack(got as never);
    await first.connection.close();
    await first.server.close();
    const { channel } = await serve(store);
    const again = await channel.get("q");
    expect(again).toMatchObject({ fields: { redelivered: true } });
  });

  test("messages that expired without a server are routed to their dead-letter exchange by the next server", async () => {
    const store = await openStore(name);
    const first = await serve(store);
    await first.channel.assertQueue("dead");
    const deadLetter = { deadLetterExchange: "", deadLetterRoutingKey: "dead" };
    await first.channel.assertQueue("q", { ...deadLetter, arguments: { "x-max-length": 1 } });
    await first.connection.close();
    await first.server.close();
    // By the library, so that no server is there to route it.
    await store.add([
      { queue: "q", data: "1" },
      { queue: "q", data: "2" },
    ]);
    const { channel } = await serve(store);
    const reason = await new Promise((resolve) => {
      void channel.consume("dead", (message) =>
        resolve([message!.content.toString(), message!.properties.headers!["x-first-death-reason"]]),
      );
    });
    expect(reason).toEqual(["1", "maxlen"]);
    expect((await store.stats("q")).depth).toMatchObject({ ready: 1, expired: 1 });
  });
});

describe.each(STORES)("two servers on %s", (name) => {
  test("a binding made at one server takes effect for the next message at the other", async () => {
    const store = await openStore(name);
    const [first, second] = [await serve(store), await serve(store)];
    await first.channel.assertExchange("x", "fanout");
    await first.channel.assertQueue("old");
    await first.channel.bindQueue("old", "x", "");
    const publish = async (count: number) => {
      for (let at = 0; at < count; at++) first.channel.publish("x", "", Buffer.from(`${at}`));
      await first.channel.waitForConfirms();
    };
    await publish(2);
    await second.channel.assertQueue("new");
    await second.channel.bindQueue("new", "x", "");
    await publish(3);
    expect((await first.channel.checkQueue("old")).messageCount).toBe(5);
    expect((await first.channel.checkQueue("new")).messageCount).toBe(3);
  });
});

describe("a server with AMQP", () => {
  test("publishers are blocked while the store fails, and continue when it writes again", async () => {
    const store = await openStore("a file");
    let isFailing = false;
    const refuse = () => {
      const error = new DibsError("UNAVAILABLE", "The disk is full.");
      markStoreFault(error);
      return Promise.reject(error);
    };
    const [add, put] = [store.add.bind(store), store.documents.put.bind(store.documents)];
    store.add = (...args) => (isFailing ? refuse() : add(...args));
    store.documents.put = (...args) => (isFailing ? refuse() : put(...args));
    const { connection, channel } = await serve(store);
    await channel.assertQueue("q");
    const blocked = new Promise((resolve) => connection.once("blocked", resolve));
    const unblocked = new Promise<void>((resolve) => connection.once("unblocked", () => resolve()));
    isFailing = true;
    const refused = new Promise((resolve) => channel.sendToQueue("q", Buffer.from("1"), {}, resolve));
    expect(await refused).toBeInstanceOf(Error);
    expect(await blocked).toBe("the store does not take messages");
    isFailing = false;
    await unblocked;
    channel.sendToQueue("q", Buffer.from("2"));
    await channel.waitForConfirms();
    expect((await channel.checkQueue("q")).messageCount).toBe(1);
  });

  test("a consumer that does not acknowledge within the queue's timeout loses its channel with 406", async () => {
    const store = await openStore("a file");
    const { connection, channel } = await serve(store);
    await channel.assertQueue("q", { arguments: { "x-consumer-timeout": 1_000 } });
    channel.sendToQueue("q", Buffer.from("1"));
    const failed = new Promise<Error>((resolve) => channel.once("error", resolve));
    await channel.consume("q", () => {});
    expect((await failed).message).toContain(
      "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1000 ms.",
    );
    const other = await connection.createChannel();
    await expect
      .poll(() => other.get("q"), { timeout: 10_000 })
      .toMatchObject({ fields: { redelivered: true } });
  });

  test("a new secret changes what a connection may do, and a wrong one ends it", async () => {
    const store = await openStore("a file");
    const { connection } = await serve(store);
    await connection.updateSecret(Buffer.from("guest"), "renewed");
    const failed = new Promise<Error>((resolve) => connection.once("error", resolve));
    connection.updateSecret(Buffer.from("wrong"), "renewed").catch(() => {});
    expect((await failed).message).toContain("530");
  });

  test("a virtual host is a namespace that the configuration names, and others are refused with 530", async () => {
    const store = await openStore("a file");
    const { channel, dial } = await serve(store, { vhosts: ["shop"] }, "shop");
    await channel.assertQueue("q");
    expect((await store.queues()).items.map((queue) => queue.name)).toEqual([queueOf("shop", "q")]);
    await expect(dial("none")).rejects.toThrow("ConnectionClose");
  });

  test("publishers are blocked while too much waits for the store, and continue afterwards", async () => {
    const store = await openStore("a file");
    const { connection, channel } = await serve(store, { mostUnstored: 50_000 });
    const told: string[] = [];
    connection.on("blocked", (reason: string) => told.push(`blocked: ${reason}`));
    const isFree = new Promise<void>((resolve) => {
      connection.on("unblocked", () => {
        told.push("unblocked");
        resolve();
      });
    });
    await channel.assertQueue("q");
    for (let count = 0; count < 20; count++) channel.sendToQueue("q", Buffer.alloc(10_000));
    await channel.waitForConfirms();
    await isFree;
    expect(told.slice(0, 2)).toEqual(["blocked: low on memory", "unblocked"]);
    expect((await channel.checkQueue("q")).messageCount).toBe(20);
  });
});
