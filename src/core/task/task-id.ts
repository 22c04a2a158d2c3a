/**
 * A task's public id is a UUIDv7 that is computed from its sequence number in the store, so that no index is needed to
 * find a task by its id. The ids of one store sort in the order of arrival.
 *
 *   ms 48 bits | version 4 | sequence, high 12 | variant 2 | sequence, low 36 | mixed 26
 *
 * `mixed` is a random number that a store gets when it is created, so that ids of different stores differ, plus a
 * multiple of the sequence number, so that neighbouring ids differ in their last digits: people shorten ids to them.
 */
export interface TaskIdParts {
  seq: number;
  createdAt: number;
}

const STORE_BITS = 26;
export const STORE_LIMIT = 2 ** STORE_BITS;
const STORE_MASK = STORE_LIMIT - 1;
/** The low bits of a sequence number that are in the last group of an id. */
const REST_BITS = 22;
const BLOCK = 2 ** REST_BITS;
const TOP_BITS = 14;
const VARIANT = 0x8000;
/** Odd, so that 2^26 ids in a row end differently, and large, so that several digits change from one to the next. */
const STEP = 0x2c6e5b1;

function mix(store: number, seq: number): number {
  return (store + Math.imul(seq % STORE_LIMIT, STEP)) & STORE_MASK;
}

/** The first 24 characters of the last id, which the next one mostly has too: ids are created in bulk. */
let last = { createdAt: -1, block: -1, text: "" };

export function formatTaskId(createdAt: number, seq: number, store: number): string {
  const block = Math.floor(seq / BLOCK);
  if (createdAt !== last.createdAt || block !== last.block)
    last = { createdAt, block, text: beginningOf(createdAt, block) };
  const mixed = mix(store, seq);
  return last.text + (hex24((seq % BLOCK) * 4 + (mixed >> 24)) + hex24(mixed & 0xff_ffff));
}

/** `block`: the sequence number without its low bits. */
function beginningOf(createdAt: number, block: number): string {
  const ms = hex24(Math.floor(createdAt / 2 ** 24)) + hex24(createdAt % 2 ** 24);
  const variant = VARIANT + (block % 2 ** TOP_BITS);
  return `${ms.slice(0, 8)}-${ms.slice(8)}-7${HEX12[Math.floor(block / 2 ** TOP_BITS)]!}-${variant.toString(16)}-`;
}

/** All numbers of three hex digits: toString(16) and padding take ten times as long. */
const HEX12 = Array.from({ length: 4096 }, (_, n) => n.toString(16).padStart(3, "0"));

function hex24(n: number): string {
  return HEX12[n >> 12]! + HEX12[n & 0xfff]!;
}

const UUID7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Undefined if the text is not a task id, or an id of another store. */
export function parseTaskId(id: string, store: number): TaskIdParts | undefined {
  if (!UUID7.test(id)) return undefined;
  const block = readHex(id, 15, 18) * 2 ** TOP_BITS + (readHex(id, 19, 23) - VARIANT);
  const high = readHex(id, 24, 30);
  const seq = block * BLOCK + (high >> 2);
  const mixed = ((high & 3) << 24) | readHex(id, 30, 36);
  // Ids that were given out before their ends were mixed are still valid.
  if (mixed !== mix(store, seq) && mixed !== store) return undefined;
  const createdAt = readHex(id, 0, 6) * 2 ** 24 + readHex(id, 6, 8) * 2 ** 16 + readHex(id, 9, 13);
  return { seq, createdAt };
}

export function isTaskId(text: string): boolean {
  return UUID7.test(text);
}

const ZERO = 48;
const LETTERS = 97 - 10;

/** At most six hex digits. To parse slices takes five times as long. */
function readHex(text: string, from: number, to: number): number {
  let value = 0;
  for (let i = from; i < to; i++) {
    const code = text.charCodeAt(i);
    value = (value << 4) | (code - (code > LETTERS ? LETTERS : ZERO));
  }
  return value;
}
