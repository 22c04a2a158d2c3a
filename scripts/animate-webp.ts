// Puts single WebP images together into an animation: the container around them, no image coding.
// https://developers.google.com/speed/webp/docs/riff_container

export interface Frame {
  /** A whole WebP file without transparency, as a browser takes it. */
  image: Buffer;
  milliseconds: number;
}

/** @param most bytes of the whole; the last frames that do not fit are left out */
export function animateWebp(frames: Frame[], most = Infinity): Buffer {
  const { width, height } = sizeOf(bitmapOf(frames[0]!.image));
  const canvas = Buffer.alloc(10);
  canvas.writeUInt8(ANIMATED, 0);
  canvas.writeUIntLE(width - 1, 4, 3);
  canvas.writeUIntLE(height - 1, 7, 3);
  // Background colour 0, and 0 for "again and again".
  const animation = Buffer.alloc(6);
  const chunks = [chunk("VP8X", canvas), chunk("ANIM", animation)];
  let length = BEFORE_CHUNKS + chunks.reduce((sum, each) => sum + each.length, 0);
  for (const frame of frames.map(frameChunk)) {
    length += frame.length;
    if (length > most) break;
    chunks.push(frame);
  }
  const body = Buffer.concat([Buffer.from("WEBP"), ...chunks]);
  return Buffer.concat([Buffer.from("RIFF"), size(body.length), body]);
}

/** "RIFF", the length and "WEBP". */
const BEFORE_CHUNKS = 12;
const ANIMATED = 0b10;
/** The frame replaces what is below it, and stays until the next. */
const REPLACES = 0b10;

function frameChunk({ image, milliseconds }: Frame): Buffer {
  const bitmap = bitmapOf(image);
  const { width, height } = sizeOf(bitmap);
  const head = Buffer.alloc(16);
  head.writeUIntLE(width - 1, 6, 3);
  head.writeUIntLE(height - 1, 9, 3);
  head.writeUIntLE(Math.round(milliseconds), 12, 3);
  head.writeUInt8(REPLACES, 15);
  return chunk("ANMF", Buffer.concat([head, chunk("VP8 ", bitmap)]));
}

/** The lossy bitmap in a WebP file. */
function bitmapOf(image: Buffer): Buffer {
  for (let at = 12; at + 8 <= image.length;) {
    const length = image.readUInt32LE(at + 4);
    if (image.toString("latin1", at, at + 4) === "VP8 ") return image.subarray(at + 8, at + 8 + length);
    at += 8 + length + (length % 2);
  }
  throw new Error("This is no lossy WebP image.");
}

/** From the header of its first, and only, key frame. */
function sizeOf(bitmap: Buffer): { width: number; height: number } {
  return { width: bitmap.readUInt16LE(6) & 0x3fff, height: bitmap.readUInt16LE(8) & 0x3fff };
}

function chunk(name: string, content: Buffer): Buffer {
  return Buffer.concat([Buffer.from(name), size(content.length), content, Buffer.alloc(content.length % 2)]);
}

function size(length: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(length);
  return bytes;
}
