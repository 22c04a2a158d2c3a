// Changed bits in valid frames, and arbitrary bytes: the door's decoder refuses them with an AMQP error, or reads them.

import { expect, test } from "vitest";
import { Assembler } from "../../../../src/doors/amqp/assembler.ts";
import { AmqpError } from "../../../../src/doors/amqp/wire/errors.ts";
import { FrameReader } from "../../../../src/doors/amqp/wire/frames.ts";
import { readProperties } from "../../../../src/doors/amqp/wire/properties.ts";
import { readTable } from "../../../../src/doors/amqp/wire/table.ts";
import { isLong } from "../../../run/long.ts";
import { Random } from "../../../simulation/random.ts";
import { change, SAMPLES } from "./samples.ts";

const inputs = Number(process.env["DIBS_INPUTS"] ?? (isLong ? 5_000_000 : 20_000));
const seed = Number(process.env["DIBS_SEED"] ?? Math.floor(Math.random() * 1e6));
const FRAME_MAX = 131_072;
const MAX_BODY = 1_000_000;
const MB = 1_000_000;

/** Reads the bytes as the door does, in parts as a network would deliver them. */
function decode(bytes: Buffer, random: Random): void {
  const reader = new FrameReader(FRAME_MAX);
  const assembler = new Assembler(MAX_BODY);
  const cut = random.between(0, bytes.length);
  for (const part of [bytes.subarray(0, cut), bytes.subarray(cut)]) {
    reader.add(part);
    for (let frame = reader.next(); frame; frame = reader.next()) {
      if (frame.type === 8) continue;
      const complete = assembler.take(frame);
      if (!complete) continue;
      for (const value of Object.values(complete.method.args as Record<string, unknown>))
        if (Buffer.isBuffer(value)) readTable(value);
      if (complete.message) readProperties(complete.message.properties);
    }
  }
}

test(`${inputs} changed frames are read, or refused with an AMQP error`, { timeout: 60_000 + inputs }, () => {
  const random = new Random(seed);
  let refused = 0;
  const before = process.memoryUsage().rss;
  for (let count = 0; count < inputs; count++) {
    const bytes = change(random.pick(SAMPLES), random);
    try {
      decode(bytes, random);
    } catch (error) {
      if (!(error instanceof AmqpError))
        throw new Error(`DIBS_SEED=${seed}, input ${count}: ${bytes.toString("hex")}`, { cause: error });
      refused++;
    }
  }
  // Both happen often, otherwise the changes are too small or too large to find anything.
  expect(refused).toBeGreaterThan(inputs / 20);
  expect(refused).toBeLessThan(inputs * 0.95);
  expect(process.memoryUsage().rss - before).toBeLessThan(500 * MB);
});
