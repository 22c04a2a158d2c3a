import { openPort } from "../../src/api/open.ts";
import { SILENT } from "../../src/core/logger.ts";
import type { Port } from "../../src/core/port.ts";
import { startServer } from "../server/start.ts";
import { Random } from "../simulation/random.ts";
import { fuzzBytes, fuzzRequests } from "./http.ts";
import { fuzzFrames, fuzzMessages } from "./native.ts";

export interface Found {
  inputs: number;
  byKind: Record<string, number>;
  /** What the server logged as a failure of its own. */
  failures: string[];
}

/** So many inputs a round, by kind: connections of their own take longest. */
const ROUND = { requests: 400, messages: 400, bytes: 60, frames: 60 } as const;
type Kind = keyof typeof ROUND;
const FUZZERS: Record<Kind, (url: string, random: Random, count: number) => Promise<number>> = {
  ...{ requests: fuzzRequests, messages: fuzzMessages, bytes: fuzzBytes, frames: fuzzFrames },
};

/**
 * A server on a store in memory, and whoever means no good. Each round has a seed of its own, `from` the first one's, and can
 * be repeated alone. Fails with the seed of a round in which something was answered that should not have been.
 */
export class Fuzz {
  readonly found: Found = { inputs: 0, byKind: {}, failures: [] };
  readonly #store: Port;
  readonly #server: Awaited<ReturnType<typeof startServer>>;

  private constructor(store: Port, server: Awaited<ReturnType<typeof startServer>>) {
    this.#store = store;
    this.#server = server;
  }

  static async start(): Promise<Fuzz> {
    const store = await openPort(":memory:", {});
    const failures: string[] = [];
    const logger = { ...SILENT, error: (message: string) => failures.push(message) };
    const server = await startServer(store, { logger, native: { resumeMs: 20, maxFrame: 100_000 } });
    const fuzz = new Fuzz(store, server);
    fuzz.found.failures = failures;
    return fuzz;
  }

  async round(seed: number): Promise<void> {
    const random = new Random(seed);
    const kind = random.weighted({ requests: 10, messages: 12, bytes: 2, frames: 1 });
    try {
      const sent = await FUZZERS[kind](this.#server.url, random, ROUND[kind]);
      this.found.inputs += sent;
      this.found.byKind[kind] = (this.found.byKind[kind] ?? 0) + sent;
    } catch (error) {
      throw new Error(`Round ${seed} (${kind}) failed: ${(error as Error).message}`, { cause: error });
    }
    if (this.found.failures.length > 0)
      throw new Error(`Round ${seed} (${kind}): ${this.found.failures.join("; ")}`);
    await this.#tidyUp();
  }

  /** It still works, nobody is connected any more, and what was added is gone. */
  async #tidyUp(): Promise<void> {
    const ready = await fetch(`${this.#server.url}/readyz`);
    if (ready.status !== 200) throw new Error(`Afterwards it was not ready: ${await ready.text()}`);
    const end = performance.now() + 10_000;
    while (this.#server.clients > 0) {
      if (performance.now() > end) throw new Error(`${this.#server.clients} clients never left.`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    for (const { name } of await this.#store.queues()) await this.#store.drop(name);
  }

  async stop(): Promise<void> {
    await this.#server.close();
    await this.#store.close();
  }
}
