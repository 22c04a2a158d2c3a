import { expect } from "vitest";
import type { Dibs, TaskInfo } from "../../../src/index.ts";
import type { Entry } from "../programs/storm-log.ts";

/** The acknowledged adds and acks that a store no longer knows, or knows differently. */
export async function findLosses(dibs: Dibs, entries: Entry[]): Promise<Entry[]> {
  const losses = await Promise.all(
    entries.map(async (entry) => {
      if (entry.kind !== "added" && entry.kind !== "acked") return undefined;
      const info = await infoOf(dibs, entry.id);
      return info && (entry.kind === "added" ? isAdded(info, entry) : isAcked(info, entry))
        ? undefined
        : entry;
    }),
  );
  return losses.filter((loss) => loss !== undefined);
}

async function infoOf(dibs: Dibs, id: string): Promise<TaskInfo | undefined> {
  try {
    return await dibs.task(id).info();
  } catch (error) {
    if ((error as { code?: string }).code !== "TASK_NOT_FOUND") throw error;
    return undefined;
  }
}

function isAdded({ data, idempotencyKey }: TaskInfo, { by, n, key }: Entry & { kind: "added" }): boolean {
  const added = data as { by: string; n: number };
  return added.by === by && added.n === n && idempotencyKey === key;
}

function isAcked({ state, result }: TaskInfo, { id, fence }: Entry & { kind: "acked" }): boolean {
  const acked = result as { id: string; fence: number } | undefined;
  return state === "done" && acked?.id === id && acked.fence === fence;
}

/** Each fence of a task is greater than all that it had before the last cut. The entries between two cuts are a round. */
export function expectFencesGrow(rounds: Entry[][]): void {
  const highest = new Map<string, number>();
  for (const round of rounds) {
    const began = round.filter((entry) => entry.kind === "began");
    for (const { id, fence } of began)
      expect(fence, `a fence of task ${id} after a cut`).toBeGreaterThan(highest.get(id) ?? 0);
    for (const { id, fence } of began) highest.set(id, Math.max(fence, highest.get(id) ?? 0));
  }
}
