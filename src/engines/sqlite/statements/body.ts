import type { Body } from "../../../core/task/task.ts";

/** Text stays text. Bytes become a plain Uint8Array: better-sqlite3 returns a Buffer. */
export function bodyFrom(value: Body): Body;
export function bodyFrom(value: Body | null): Body | null;
export function bodyFrom(value: Body | null): Body | null {
  if (value === null || typeof value === "string") return value;
  return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
}
