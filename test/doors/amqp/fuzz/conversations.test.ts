// Whole conversations with changed bits, against a server: it answers with AMQP or closes, serves the others meanwhile,
// and its memory stays bounded.

import { once } from "node:events";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { isLong } from "../../../run/long.ts";
import { Random } from "../../../simulation/random.ts";
import { serveAmqp } from "../clients/served.ts";
import { RawConnection } from "../raw/connection.ts";
import { FrameCutter, PROTOCOL_HEADER, writeMethod } from "../raw/frames.ts";
import { methodWithIds } from "../raw/methods.ts";
import { change, SAMPLES } from "./samples.ts";

const rounds = Number(process.env["DIBS_ROUNDS"] ?? (isLong ? 100_000 : 150));
const seed = Number(process.env["DIBS_SEED"] ?? Math.floor(Math.random() * 1e6));
const MB = 1_000_000;
const AT_ONCE = 10;

const LOGIN = [
  PROTOCOL_HEADER,
  writeMethod(0, "connection.start-ok", {
    ...{ clientProperties: {}, mechanism: "PLAIN", response: "\0guest\0guest", locale: "en_US" },
  }),
  writeMethod(0, "connection.tune-ok", { channelMax: 100, frameMax: 131_072, heartbeat: 0 }),
  writeMethod(0, "connection.open", { virtualHost: "/" }),
  writeMethod(1, "channel.open"),
];

/** Sends a conversation of which one part is damaged, and checks that all that comes back is AMQP. */
async function attack(port: number, random: Random): Promise<void> {
  const parts = [...LOGIN, ...Array.from({ length: random.between(1, 12) }, () => random.pick(SAMPLES))];
  const damaged = random.between(0, parts.length - 1);
  parts[damaged] = change(parts[damaged]!, random);
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  socket.on("error", () => {});
  const cutter = new FrameCutter();
  socket.on("data", (bytes: Buffer) => {
    for (const { type, payload } of cutter.push(bytes))
      if (type === 1) methodWithIds(payload.readUInt16BE(0), payload.readUInt16BE(2));
  });
  await once(socket, "connect");
  socket.end(Buffer.concat(parts));
  await once(socket, "close");
}

test(
  `${rounds} damaged conversations leave the server and its other clients unharmed`,
  {
    timeout: 120_000 + rounds * 200,
  },
  async () => {
    const served = await serveAmqp("a file");
    const witness = await RawConnection.login(served.url);
    await witness.channel(1);
    await witness.call(1, "queue.declare", { queue: "witness" });
    await witness.call(1, "confirm.select");
    const before = process.memoryUsage().rss;
    for (let round = 0; round < rounds; round += AT_ONCE) {
      const attacks = Array.from({ length: AT_ONCE }, (_, at) =>
        attack(served.port, new Random(seed + round + at)).catch((error: unknown) => {
          throw new Error(`Again: DIBS_SEED=${seed + round + at} DIBS_ROUNDS=1`, { cause: error });
        }),
      );
      witness.publish(1, { routingKey: "witness" }, {}, Buffer.from(`${round}`));
      expect((await witness.take(1)).method).toBe("basic.ack");
      await Promise.all(attacks);
    }
    const { fields } = await witness.call(1, "queue.purge", { queue: "witness" });
    expect(fields["messageCount"]).toBe(Math.ceil(rounds / AT_ONCE));
    expect(process.memoryUsage().rss - before).toBeLessThan(500 * MB);
    await witness.close();
  },
);
