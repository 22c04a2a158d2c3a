import type { TaskChange } from "./change.ts";
import { isDibsError } from "../errors/errors.ts";
import type { Port } from "../port.ts";
import type { TaskMatch } from "./task-match.ts";
import { isEnd, type TaskRecord, type TaskState } from "./task.ts";

/**
 * Changes every task that matches, page by page, over any port. Each page is one bounded call, and its changes share
 * commits. Tasks that are added, or that end, after it began are left alone, so it comes to an end under load.
 */
export type BulkChange = { kind: "cancel" } | TaskChange;

export interface BulkOptions {
  states: readonly TaskState[];
  match: TaskMatch;
  /** At most this many are changed. */
  limit: number;
  /** Counts what would be changed, and changes nothing. */
  dryRun: boolean;
  onProgress?: ((progress: BulkProgress) => void) | undefined;
  signal?: AbortSignal | undefined;
}

export interface BulkProgress {
  changed: number;
  /**
   * Tasks that matched and were not changed: their state changed meanwhile, or they already had the requested values.
   */
  skipped: number;
  /** Tasks that were compared. */
  searched: number;
}

/** Tasks of one page: few enough that other callers are not kept waiting. */
const BATCH = 200;

/** `changeNow` is called for each page, so that a due time does not move while this runs. */
export async function changeAll(
  port: Port,
  queue: string,
  changeNow: () => BulkChange,
  { states, match, limit, dryRun, onProgress, signal }: BulkOptions,
): Promise<BulkProgress> {
  const progress = { changed: 0, skipped: 0, searched: 0 };
  // A change may move a task behind the cursor or into a state that is listed later, so the list can return it again.
  const seen = new Set<string>();
  let startedAt: number | undefined;
  for (const state of states) {
    let after: string | undefined;
    do {
      signal?.throwIfAborted();
      const page = await port.list({ queue, state, match, limit: BATCH, after });
      startedAt ??= page.now!;
      const targets = page.tasks
        .filter((task) => isOlder(task, startedAt!) && !seen.has(task.id))
        .slice(0, limit - progress.changed);
      for (const { id } of targets) seen.add(id);
      const change = changeNow();
      const changed = dryRun ? targets.length : await changeEach(port, targets, change);
      progress.changed += changed;
      progress.skipped += targets.length - changed;
      progress.searched += page.searched!;
      if (page.searched! > 0) onProgress?.({ ...progress });
      if (progress.changed >= limit) return progress;
      after = page.next ?? undefined;
    } while (after !== undefined);
  }
  return progress;
}

function isOlder({ createdAt, endedAt }: TaskRecord, startedAt: number): boolean {
  return createdAt <= startedAt && (endedAt === null || endedAt <= startedAt);
}

async function changeEach(port: Port, tasks: readonly TaskRecord[], change: BulkChange): Promise<number> {
  const outcomes = await Promise.all(
    tasks.map(({ id }) =>
      changeOne(port, id, change).catch((error: unknown) => {
        if (isDibsError(error) && MOVED.has(error.code)) return false;
        throw error;
      }),
    ),
  );
  return outcomes.filter(Boolean).length;
}

/** The task cannot be changed any more: a worker has started it meanwhile, or it was removed. */
const MOVED: ReadonlySet<string> = new Set(["WRONG_STATE", "TASK_NOT_FOUND"]);

async function changeOne(port: Port, id: string, change: BulkChange): Promise<boolean> {
  if (change.kind !== "cancel") return (await port.change(id, change)).changed;
  const state = await port.cancel(id);
  // A claimed task ends when its worker settles it.
  return state === "cancelled" || !isEnd(state);
}
