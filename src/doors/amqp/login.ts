import { readTable, fieldOf } from "./wire/table.ts";

/** Reads the name and the password that a client logs in with. Undefined: its answer is not of the mechanism. */
export interface Credentials {
  user: string;
  password: string;
}

export const MECHANISMS = "PLAIN AMQPLAIN";

export function readCredentials(mechanism: string, response: Buffer): Credentials | undefined {
  try {
    if (mechanism === "PLAIN") return readPlain(response);
    if (mechanism === "AMQPLAIN") return readAmqplain(response);
  } catch {
    // Bytes that are no table.
  }
  return undefined;
}

/** An identity that is ignored, a name and a password, with a zero byte before each of the last two. */
function readPlain(response: Buffer): Credentials | undefined {
  const parts = response.toString().split("\0");
  return parts.length === 3 ? { user: parts[1]!, password: parts[2]! } : undefined;
}

/** A table without its length. */
function readAmqplain(response: Buffer): Credentials | undefined {
  const table = readTable(response);
  const user = fieldOf(table, "LOGIN");
  const password = fieldOf(table, "PASSWORD");
  if (user?.type !== "S" || password?.type !== "S") return undefined;
  return { user: user.value.toString(), password: password.value.toString() };
}

/** Which extensions of the protocol a client understands, by the properties that it introduces itself with. */
export function capabilitiesOf(clientProperties: Buffer): (name: string) => boolean {
  const capabilities = fieldOf(readTable(clientProperties), "capabilities");
  return (name) => capabilities?.type === "F" && fieldOf(capabilities.value, name)?.type === "t";
}

/** How long a failed login is left unanswered: longer with every failure from the same address. */
export class LoginDelays {
  readonly #failures = new Map<string, { count: number; at: number }>();

  /** In milliseconds. */
  failed(address: string): number {
    const now = performance.now();
    const before = this.#failures.get(address);
    const count = before && now - before.at < FORGET_MS ? before.count + 1 : 1;
    this.#failures.delete(address);
    this.#failures.set(address, { count, at: now });
    if (this.#failures.size > MOST_ADDRESSES) this.#failures.delete(this.#failures.keys().next().value!);
    return Math.min(LONGEST_MS, FIRST_MS * 2 ** (count - 1));
  }

  succeeded(address: string): void {
    this.#failures.delete(address);
  }
}

const FIRST_MS = 100;
const LONGEST_MS = 5_000;
const FORGET_MS = 60_000;
const MOST_ADDRESSES = 10_000;
