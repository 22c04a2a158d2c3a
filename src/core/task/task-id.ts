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

const SEQ_LOW_BITS = 36;
const STORE_BITS = 26;
export const STORE_LIMIT = 2 ** STORE_BITS;
const SEQ_LOW = 2 ** SEQ_LOW_BITS;
/** Odd, so that 2^26 ids in a row end differently, and large, so that several digits change from one to the next. */
const STEP = 0x2c6e5b1;

function mix(store: number, seq: number): number {
  return (store + (seq % STORE_LIMIT) * STEP) % STORE_LIMIT;
}

export function formatTaskId(createdAt: number, seq: number, store: number): string {
  const seqHigh = Math.floor(seq / SEQ_LOW);
  const seqLow = seq % SEQ_LOW;
  // 62 bits after the variant: 36 of sequence, 26 of store. Split at 14 bits for the UUID's fourth group.
  const top14 = Math.floor(seqLow / 2 ** 22);
  const rest22 = seqLow % 2 ** 22;
  const ms = hex48(createdAt);
  return `${ms.slice(0, 8)}-${ms.slice(8)}-7${hex12(seqHigh)}-${hex16(0x8000 + top14)}-${hex48(rest22 * STORE_LIMIT + mix(store, seq))}`;
}

/**
 * All numbers of three hex digits. toString(16) of a 48-bit number takes ten times as long, and ids are created in
 * bulk.
 */
const HEX12 = Array.from({ length: 4096 }, (_, n) => n.toString(16).padStart(3, "0"));

function hex12(n: number): string {
  return HEX12[n]!;
}

function hex16(n: number): string {
  return "0123456789abcdef"[n >> 12]! + HEX12[n & 0xfff]!;
}

function hex48(n: number): string {
  const high = Math.floor(n / 2 ** 24);
  const low = n % 2 ** 24;
  return HEX12[high >> 12]! + HEX12[high & 0xfff]! + HEX12[low >> 12]! + HEX12[low & 0xfff]!;
}

const UUID7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Undefined if the text is not a task id, or an id of another store. */
export function parseTaskId(id: string, store: number): TaskIdParts | undefined {
  if (!UUID7.test(id)) return undefined;
  const group5 = Number.parseInt(id.slice(24), 16);
  const seqHigh = Number.parseInt(id.slice(15, 18), 16);
  const top14 = Number.parseInt(id.slice(19, 23), 16) - 0x8000;
  const rest22 = Math.floor(group5 / STORE_LIMIT);
  const seq = seqHigh * SEQ_LOW + top14 * 2 ** 22 + rest22;
  const mixed = group5 % STORE_LIMIT;
  // Ids that were given out before their ends were mixed are still valid.
  if (mixed !== mix(store, seq) && mixed !== store) return undefined;
  return {
    seq,
    createdAt: Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16),
  };
}

export function isTaskId(text: string): boolean {
  return UUID7.test(text);
}
