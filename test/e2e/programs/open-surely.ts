import { setTimeout as sleep } from "node:timers/promises";
import { type Dibs, open, type OpenOptions } from "../../../src/index.ts";

/** A store whose server is being restarted cannot be opened: a process that starts just then retries. */
export async function openSurely(file: string, options?: OpenOptions): Promise<Dibs> {
  for (;;) {
    try {
      return await open(file, options);
    } catch (error) {
      const { code, retryable } = error as { code?: string; retryable?: boolean };
      if (code !== "UNAVAILABLE" || !retryable) throw error;
      await sleep(50);
    }
  }
}
