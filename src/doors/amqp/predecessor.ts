import { createHash } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import type { Port } from "../../core/port.ts";

/**
 * Returns the claims of a server that was killed. A server writes down its sessions under the address that it listens
 * at. Only one process can listen there, so the next one that does knows that these sessions have no owner any more, and
 * ends them: without that, their messages would wait until the lease ends.
 */
const KIND = "amqp-session";

export class Sessions {
  readonly #port: Port;
  /** The sessions of the predecessor have ended. */
  readonly ready: Promise<void>;
  #isReady: () => void = () => {};
  #place = "";

  constructor(port: Port) {
    this.#port = port;
    this.ready = new Promise((resolve) => (this.#isReady = resolve));
  }

  /** After this process has begun to listen. Ends the sessions of the process that listened there before. */
  async takeOver(address: string): Promise<void> {
    this.#place = placeOf(address);
    const { documents } = this.#port;
    let page = await documents.list(KIND);
    const found = [...page.items];
    while (page.next !== null) found.push(...(page = await documents.list(KIND, { after: page.next })).items);
    const own = found.filter(({ name }) => name.startsWith(`${this.#place}/`));
    await Promise.all(own.map(({ value }) => this.#port.leave(Number(value), { lost: true })));
    await Promise.all(own.map(({ name }) => documents.put(KIND, name, null)));
    this.#isReady();
  }

  /** Resolves when the session can be found by a successor: before it claims anything. */
  async joined(session: number): Promise<void> {
    await this.#port.documents.put(KIND, this.#nameOf(session), `${session}`);
  }

  async left(session: number): Promise<void> {
    await this.#port.documents.put(KIND, this.#nameOf(session), null);
  }

  #nameOf(session: number): string {
    return `${this.#place}/${session}`;
  }
}

/** An address means one process within a network namespace of a running machine, and no more. */
function placeOf(address: string): string {
  const facts = [hostname(), address, readBootId(), readNetwork()];
  return createHash("sha256").update(JSON.stringify(facts)).digest("hex").slice(0, 16);
}

function readBootId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return "";
  }
}

function readNetwork(): string {
  try {
    return readlinkSync("/proc/self/ns/net");
  } catch {
    return "";
  }
}
