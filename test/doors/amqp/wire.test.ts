import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readMethod } from "../../../src/doors/amqp/wire/decode.ts";
import { FrameWriter } from "../../../src/doors/amqp/wire/encode.ts";
import { FrameReader } from "../../../src/doors/amqp/wire/frames.ts";
import { readProperties, replaceProperties, shortstr } from "../../../src/doors/amqp/wire/properties.ts";
import {
  DEEPEST_TABLE,
  type Field,
  readTable,
  type Table,
  writeTable,
} from "../../../src/doors/amqp/wire/table.ts";

describe("the codec of AMQP", () => {
  test("a method comes back as it was written", () => {
    const writer = new FrameWriter();
    const args = {
      ...{ queue: "q ü", passive: false, durable: true, exclusive: false, autoDelete: true, noWait: false },
      arguments: writeTable([["x-max-length", { type: "I", value: 5 }]]),
    };
    writer.method(7, "queue.declare", args);
    const reader = new FrameReader(4_096);
    reader.add(writer.take());
    const frame = reader.next()!;
    expect(frame.channel).toBe(7);
    const { method } = readMethod(frame.payload);
    expect(method).toMatchObject({ name: "queue.declare", args });
  });

  test("frames are found, however the bytes are cut into chunks", () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(sizes, fc.array(fc.string({ maxLength: 60 }), { maxLength: 8 }), (cuts, tags) => {
        const writer = new FrameWriter();
        for (const tag of tags) writer.method(1, "basic.cancel", { consumerTag: tag, noWait: false });
        const bytes = writer.take();
        const reader = new FrameReader(4_096);
        const found: string[] = [];
        for (let at = 0, cut = 0; at < bytes.length; at += cuts[cut++ % cuts.length]!) {
          reader.add(bytes.subarray(at, at + cuts[cut % cuts.length]!));
          for (let frame = reader.next(); frame; frame = reader.next()) {
            const { method } = readMethod(frame.payload);
            found.push((method.args as { consumerTag: string }).consumerTag);
          }
        }
        expect(found).toEqual(tags.map((tag) => Buffer.from(tag).toString()));
      }),
    );
  });

  test("a table of any values is written back byte for byte", () => {
    const scalar: fc.Arbitrary<Field> = fc.oneof(
      fc.record({ type: fc.constant("t" as const), value: fc.boolean() }),
      fc.record({ type: fc.constant("I" as const), value: fc.integer() }),
      fc.record({
        type: fc.constant("l" as const),
        value: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
      }),
      fc.record({ type: fc.constant("d" as const), value: fc.double({ noNaN: true }) }),
      fc.uint8Array({ maxLength: 50 }).map((bytes): Field => ({ type: "S", value: Buffer.from(bytes) })),
      fc.constant<Field>({ type: "V" }),
    );
    const table: fc.Arbitrary<Table> = fc.letrec<{ table: Table; field: Field }>((tie) => ({
      field: fc.oneof(
        { maxDepth: 4 },
        scalar,
        tie("table").map((value): Field => ({ type: "F", value })),
        fc.array(scalar, { maxLength: 4 }).map((value): Field => ({ type: "A", value })),
      ),
      table: fc.array(fc.tuple(fc.string({ maxLength: 10 }), tie("field")), { maxLength: 5 }),
    })).table;
    fc.assert(
      fc.property(table, (given) => {
        const bytes = writeTable(given);
        expect(writeTable(readTable(bytes)).equals(bytes)).toBe(true);
      }),
    );
  });

  test("a table that is nested too deep is refused, and not by an overflow of the stack", () => {
    const nested = (depth: number): Buffer => {
      let bytes = Buffer.alloc(0);
      for (let level = 0; level < depth; level++) {
        const length = Buffer.alloc(4);
        length.writeUInt32BE(bytes.length);
        bytes = Buffer.concat([Buffer.from([1, 97]), Buffer.from("F"), length, bytes]);
      }
      return bytes;
    };
    expect(readTable(nested(DEEPEST_TABLE - 1))).toHaveLength(1);
    expect(() => readTable(nested(DEEPEST_TABLE))).toThrow("nested more than 32 deep");
    expect(() => readTable(nested(10_000))).toThrow("nested more than 32 deep");
  });

  test("any bytes are a table, properties or a method, or are refused with an error of the protocol", () => {
    const readers = [readTable, readProperties, (bytes: Buffer) => readMethod(bytes)];
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat(2), (bytes, index) => {
        try {
          readers[index]!(Buffer.from(bytes));
        } catch (error) {
          expect((error as Error).message).toMatch(/^(SYNTAX_ERROR|FRAME_ERROR|NOT_IMPLEMENTED) - /);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test("one property is replaced, and the others keep their bytes", () => {
    const before = replaceProperties(Buffer.from([0, 0]), {
      contentType: shortstr("text/plain"),
      replyTo: shortstr("a"),
      messageId: shortstr("m"),
    });
    const after = replaceProperties(before, { replyTo: shortstr("b"), contentType: null });
    expect(readProperties(after)).toEqual({ replyTo: "b", messageId: "m" });
  });

  test("a frame that is larger than agreed is refused when its size is read", () => {
    const reader = new FrameReader(4_096);
    reader.add(Buffer.from([1, 0, 1, 0, 0, 0x10, 0]));
    expect(() => reader.next()).toThrow("frame_too_large");
  });
});
