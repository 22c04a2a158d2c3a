import type { Body } from "../../../core/task.ts";

/** Text comes back as text, bytes as plain bytes: better-sqlite3 gives a Buffer. */
export function bodyFrom(value: Body): Body;
export function bodyFrom(value: Body | null): Body | null;
export function bodyFrom(value: Body | null): Body | null {
  if (value === null || typeof value === "string") return value;
  return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
}
