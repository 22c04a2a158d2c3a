import type { WorkerRecord } from "../core/task/task.ts";
import type { Actuator } from "./actuator.ts";
import type { Decision, Observed } from "./decide.ts";
import { executeCommand, postJson } from "./tell.ts";

/** Pools whose workers run elsewhere: a command or a webhook gets the size. */
export type Scale = { command: readonly string[] } | { webhook: string; headers?: Record<string, string> };

export class External implements Actuator {
  readonly #pool: string;
  readonly #scale: Scale;
  /** What was asked for last. null: the first call tells the size, whatever it is. */
  #size: number | null = null;
  #live = 0;

  readonly launcher = null;
  readonly processes = 0;

  constructor(pool: string, scale: Scale) {
    this.#pool = pool;
    this.#scale = scale;
  }

  prepare(): void {}

  /** All workers of the queues. Those that were asked for and have not come yet are starting. */
  observe(workers: readonly WorkerRecord[]): Observed["workers"] {
    this.#live = workers.length;
    const busy = workers.filter(({ claims }) => claims > 0).length;
    const wanted = this.#size ?? this.#live;
    return {
      live: Math.min(this.#live, wanted),
      starting: Math.max(0, wanted - this.#live),
      busy: Math.min(busy, wanted),
    };
  }

  async resize({ size, reasons }: Decision): Promise<string[]> {
    if (size === this.#size) return [];
    const from = this.#size ?? this.#live;
    try {
      await this.#tell(from, size, reasons);
      this.#size = size;
      return [];
    } catch (error) {
      // Not remembered: the next decision tries again.
      return [`The size ${size} could not be set, and will be tried again: ${(error as Error).message}`];
    }
  }

  async #tell(from: number, size: number, reasons: string[]): Promise<void> {
    const pool = this.#pool;
    const scale = this.#scale;
    if ("webhook" in scale) return postJson(scale.webhook, { pool, from, size, reasons }, scale.headers);
    const command = scale.command.map((each) => each.replaceAll("{size}", String(size)));
    const facts = { DIBS_POOL: pool, DIBS_SIZE: String(size), DIBS_REASONS: reasons.join("\n") };
    await executeCommand(command, facts);
  }

  /** The workers are not this pool's own: they stay as they are. */
  async stop(): Promise<void> {}
}
