import { expect, test } from "vitest";
import { animateWebp } from "../../scripts/animate-webp.ts";

/** The smallest file that has a size: 3 bytes of a frame's header, its start code, width and height. */
function image(width: number, height: number): Buffer {
  const bitmap = Buffer.from([0x10, 0, 0, 0x9d, 0x01, 0x2a, 0, 0, 0, 0, 7]);
  bitmap.writeUInt16LE(width, 6);
  bitmap.writeUInt16LE(height, 8);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bitmap.length);
  return Buffer.concat([Buffer.from("RIFF\0\0\0\0WEBPVP8 ", "latin1"), length, bitmap, Buffer.alloc(1)]);
}

test("an animation has the size of its frames, and each frame for its time", () => {
  const made = animateWebp([
    { image: image(320, 200), milliseconds: 80 },
    { image: image(320, 200), milliseconds: 1_000 },
  ]);
  expect(made.readUInt32LE(4)).toBe(made.length - 8);
  expect(made.toString("latin1", 8, 16)).toBe("WEBPVP8X");
  expect([made.readUIntLE(24, 3), made.readUIntLE(27, 3)]).toEqual([319, 199]);
  const frames = [...made.toString("latin1").matchAll(/ANMF/g)].map(({ index }) =>
    made.readUIntLE(index + 20, 3),
  );
  expect(frames).toEqual([80, 1_000]);
});

test("an animation is at most as large as asked for, without its last frames", () => {
  const frames = Array.from({ length: 10 }, () => ({ image: image(320, 200), milliseconds: 80 }));
  const whole = animateWebp(frames);
  const made = animateWebp(frames, whole.length - 1);
  expect(made.readUInt32LE(4)).toBe(made.length - 8);
  expect([...made.toString("latin1").matchAll(/ANMF/g)]).toHaveLength(9);
  expect(animateWebp(frames, whole.length)).toEqual(whole);
});

test("an image that is not lossy WebP is refused", () => {
  expect(() => animateWebp([{ image: Buffer.from("PNG"), milliseconds: 1 }])).toThrow("no lossy WebP");
});
