// kill -9 of the server while clients publish with confirms: no confirmed message is lost, none comes from nowhere, and
// the server is ready again at once.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "amqplib";
import { describe, expect, onTestFinished, test } from "vitest";
import { freePort } from "../../../postgres/server.ts";
import { freshSchema } from "../../../postgres/shared.ts";
import { isLong } from "../../../run/long.ts";
import { STORES, type StoreName } from "../clients/served.ts";

const kills = Number(process.env["DIBS_KILLS"] ?? (isLong ? 20 : 3));
const PUBLISHERS = 3;
const IN_FLIGHT = 200;
/** How many messages are confirmed between two kills. */
const CONFIRMED = 500;
const MAIN = join(import.meta.dirname, "../../../../src/cli/main.ts");

/** `dibs serve --amqp` as a process that can be killed. */
class Server {
  readonly port: number;
  readonly #args: string[];
  #child: ChildProcess | undefined;

  private constructor(port: number, args: string[]) {
    this.port = port;
    this.#args = args;
  }

  static async on(store: StoreName): Promise<Server> {
    const folder = mkdtempSync(join(tmpdir(), "dibs-amqp-kill-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const { url, schema } =
      store === "a file"
        ? { url: join(folder, "work.db") }
        : await freshSchema((undo) => onTestFinished(undo));
    const [port, http] = [await freePort(), await freePort()];
    const args = ["--url", url, "--port", `${http}`, "--amqp", "--amqp-port", `${port}`];
    const server = new Server(port, schema === undefined ? args : [...args, "--schema", schema]);
    onTestFinished(() => server.kill());
    return server;
  }

  /** Returns after how many milliseconds a client could connect. */
  async start(): Promise<number> {
    const began = performance.now();
    this.#child = spawn(process.execPath, [MAIN, "serve", ...this.#args], { stdio: "ignore" });
    for (;;) {
      if (this.#child.exitCode !== null) throw new Error(`The server ended with ${this.#child.exitCode}.`);
      const connection = await connect(`amqp://guest:guest@127.0.0.1:${this.port}`).catch(() => undefined);
      if (connection) {
        const ready = performance.now() - began;
        await connection.close();
        return ready;
      }
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  async kill(): Promise<void> {
    if (!this.#child || this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.kill("SIGKILL");
    await once(this.#child, "exit");
  }
}

/** Publishes with confirms until the connection is lost. */
async function publish(port: number, sent: Set<string>, confirmed: Set<string>): Promise<void> {
  const connection = await connect(`amqp://guest:guest@127.0.0.1:${port}`);
  const lost = new Promise<void>((resolve) => connection.once("close", () => resolve()));
  connection.on("error", () => {});
  const channel = await connection.createConfirmChannel();
  channel.on("error", () => {});
  await channel.assertQueue("killed", { durable: true });
  let isLost = false;
  void lost.then(() => (isLost = true));
  const next = (): void => {
    if (isLost) return;
    const id = `${process.pid}-${sent.size}`;
    sent.add(id);
    try {
      channel.sendToQueue("killed", Buffer.from(id), { persistent: true }, (error) => {
        if (error) return;
        confirmed.add(id);
        next();
      });
    } catch {
      // The connection is lost.
    }
  };
  for (let count = 0; count < IN_FLIGHT; count++) next();
  await lost;
}

/** Everything that the queue holds, each with how often it was there. */
async function drain(port: number): Promise<Map<string, number>> {
  const connection = await connect(`amqp://guest:guest@127.0.0.1:${port}`);
  const channel = await connection.createChannel();
  await channel.prefetch(200);
  const { messageCount } = await channel.checkQueue("killed");
  const found = new Map<string, number>();
  let left = messageCount;
  await new Promise<void>((resolve) => {
    if (left === 0) resolve();
    void channel.consume("killed", (message) => {
      const id = message!.content.toString();
      found.set(id, (found.get(id) ?? 0) + 1);
      channel.ack(message!);
      if (--left === 0) resolve();
    });
  });
  await connection.close();
  return found;
}

describe.each(STORES)("a server on %s that is killed", (store) => {
  test("messages that consumers held are ready again after a restart, marked as redelivered", async () => {
    const server = await Server.on(store);
    await server.start();
    const connection = await connect(`amqp://guest:guest@127.0.0.1:${server.port}`);
    connection.on("error", () => {});
    const lost = new Promise<void>((resolve) => connection.once("close", () => resolve()));
    const channel = await connection.createConfirmChannel();
    channel.on("error", () => {});
    await channel.assertQueue("held");
    const held = new Promise<void>((resolve) => void channel.consume("held", () => resolve()));
    channel.sendToQueue("held", Buffer.from("1"));
    await held;
    await server.kill();
    await lost;
    await server.start();
    const next = await connect(`amqp://guest:guest@127.0.0.1:${server.port}`);
    const again = await next.createChannel();
    // Without waiting: a claim that had to wait for the end of its lease would not be counted here.
    expect((await again.checkQueue("held")).messageCount).toBe(1);
    expect(await again.get("held")).toMatchObject({ fields: { redelivered: true } });
    await next.close();
  });
});

describe.each(STORES)("a server on %s that is killed under load", (store) => {
  test(
    `${kills} kills while clients publish: every confirmed message is there, once`,
    { timeout: 120_000 + kills * 20_000 },
    async () => {
      const server = await Server.on(store);
      const readyAfter = [await server.start()];
      const [sent, confirmed] = [new Set<string>(), new Set<string>()];
      for (let kill = 0; kill < kills; kill++) {
        const enough = confirmed.size + CONFIRMED;
        const publishing = Array.from({ length: PUBLISHERS }, () => publish(server.port, sent, confirmed));
        await expect.poll(() => confirmed.size, { timeout: 60_000 }).toBeGreaterThan(enough);
        await server.kill();
        await Promise.all(publishing);
        readyAfter.push(await server.start());
      }
      const found = await drain(server.port);
      expect([...confirmed].filter((id) => !found.has(id))).toEqual([]);
      expect([...found].filter(([id, times]) => !sent.has(id) || times !== 1)).toEqual([]);
      if (isLong)
        console.log({
          store,
          kills,
          sent: sent.size,
          confirmed: confirmed.size,
          found: found.size,
          readyAfter,
        });
    },
  );
});
