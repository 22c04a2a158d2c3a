// At the end, every task that `add` returned is looked up, and its end state is counted.

import type { Queue, TaskInfo, TaskState } from "../../src/index.ts";
import type { Done, Job } from "./queue.ts";

export interface Audit {
  done: number;
  dead: number;
  pending: number;
  /** Not found in any state. */
  lost: number;
  /** With more than one successful attempt in the ledger. */
  doubled: number;
  /** Done at the second or third attempt, by a worker that had not failed it. */
  elsewhere: number;
  /** Attempts that a crash ended. */
  cutShort: number;
}

type JobQueue = Queue<Job, Done>;
type FindTask = (id: string) => { history(): Promise<{ worker: string; outcome: string }[]> };

export async function audit(queue: JobQueue, task: FindTask, known: Iterable<string>): Promise<Audit> {
  const states = new Map<string, TaskInfo>();
  for (const state of STATES) for await (const info of allOf(queue, state)) states.set(info.id, info);

  const found: Audit = { done: 0, dead: 0, pending: 0, lost: 0, doubled: 0, elsewhere: 0, cutShort: 0 };
  for (const id of known) {
    const info = states.get(id);
    if (!info) found.lost++;
    else if (info.state === "done") found.done++;
    else if (info.state === "dead") found.dead++;
    else found.pending++;
  }
  const ledgers = await Promise.all([...states.keys()].map((id) => task(id).history()));
  for (const ledger of ledgers) {
    const successes = ledger.filter(({ outcome }) => outcome === "done");
    const failures = ledger.filter(({ outcome }) => outcome === "failed" || outcome === "lost");
    if (successes.length > 1) found.doubled++;
    if (
      failures.length > 0 &&
      successes.some(({ worker }) => failures.every((row) => row.worker !== worker))
    ) {
      found.elsewhere++;
    }
    found.cutShort += ledger.filter(({ outcome }) => outcome === "lost").length;
  }
  return found;
}

const STATES: TaskState[] = ["ready", "waiting", "scheduled", "claimed", "done", "dead"];

async function* allOf(queue: JobQueue, state: TaskState): AsyncGenerator<TaskInfo> {
  let after: string | undefined;
  do {
    const page = await queue.tasks({ state, limit: 1_000, ...(after !== undefined && { after }) });
    yield* page.tasks;
    after = page.next ?? undefined;
  } while (after !== undefined);
}
