import type { ClaimedTask } from "../../../src/core/task/task.ts";
import { BOUNDS } from "../../../src/engine/bounds.ts";
import type { Op, Outcome } from "../../../src/engine/engine.ts";
import { answer } from "../known.ts";
import type { Entry } from "./books.ts";
import type { Turn } from "./turn.ts";
import { check } from "./violation.ts";

/** One holder, priority then arrival, retry elsewhere. What was due has been processed before. */
export function checkClaim(turn: Turn, op: Op<"claim">, outcome: Outcome<"claim">): void {
  const { books } = turn;
  const session = op.session === undefined ? undefined : books.sessions.get(op.session);
  const mayClaim = op.session === undefined || books.isAlive(session);
  if ("refused" in outcome) {
    check(
      !mayClaim && outcome.refused.code === "CLAIM_LOST",
      `the claim was refused: ${outcome.refused.message}`,
    );
    return;
  }
  check(mayClaim, `session ${op.session} claimed, and it has ended`);
  const { tasks, passed } = answer<"claim">(outcome);
  if (session && tasks.length > 0) session.heartbeatAt = books.awake;
  const expected = choose(turn, op);
  for (let i = 0; i < Math.max(tasks.length, expected.picks.length); i++) {
    const [got, due] = [tasks[i], expected.picks[i]];
    check(
      got?.id === due?.id,
      () => `the claim's task ${i} is ${describe(got)}; it should be ${describe(due)}`,
    );
  }
  check(passed === expected.passed, `passed is ${passed}`);
  for (const claimed of tasks) {
    const entry = books.entries.get(claimed.id)!;
    const policy = books.policy(entry.task.queue);
    check(entry.holder === null, `task ${claimed.id} has a second holder`);
    check(claimed.fence > entry.lastFence, `the fence of task ${claimed.id} did not grow: ${claimed.fence}`);
    check(claimed.attempt === entry.failures + 1, `task ${claimed.id} is on attempt ${claimed.attempt}`);
    check(
      claimed.maxAttempts === books.maxAttempts(entry),
      `task ${claimed.id} has ${claimed.maxAttempts} attempts`,
    );
    check(
      (claimed.stepped ?? false) === entry.steps.size > 0,
      `task ${claimed.id} has steps: ${claimed.stepped}`,
    );
    check(claimed.feedback === entry.feedback, `the feedback of task ${claimed.id} is ${claimed.feedback}`);
    // A session's heartbeats follow its own lease, so a claim of it cannot have a shorter one.
    const lease = Math.max(op.lease ?? policy.lease, session?.lease ?? 0);
    entry.lastFence = claimed.fence;
    entry.keptUntil = null;
    entry.holder = {
      fence: claimed.fence,
      worker: op.worker,
      session: op.session ?? null,
      startedAt: books.now,
      lease,
      deadline: books.awake + (session ? policy.timeout : lease),
      cancelled: false,
    };
    const record = turn.expect(entry, "claimed");
    check(
      record.worker === op.worker && record.startedAt === books.now,
      `task ${claimed.id} does not name its holder`,
    );
  }
}

function choose(turn: Turn, op: Op<"claim">): { picks: Entry[]; passed: boolean } {
  const picks: Entry[] = [];
  let passed = false;
  const from = (queue: string, count: number): number => {
    const room = Math.min(count, op.max - picks.length);
    if (room <= 0 || turn.books.queues.get(queue)?.paused !== false) return 0;
    const line = lineOf(turn, queue).filter((entry) => !picks.includes(entry));
    // Of the tasks in the retry-elsewhere line, a claim reads a bounded number.
    const kept = line.filter((entry) => isKept(turn, entry)).slice(0, BOUNDS.retryScan);
    const allowed = kept.filter((entry) => !entry.failedBy.includes(op.worker));
    const open = line.filter((entry) => !isKept(turn, entry) || allowed.includes(entry));
    passed ||= allowed.length < kept.length;
    const taken = open.slice(0, room);
    picks.push(...taken);
    return taken.length;
  };
  let { queues, share = op.max } = op;
  // What is left is divided between the queues that gave their whole share.
  while (queues.length > 0 && picks.length < op.max) {
    queues = queues.filter((queue) => from(queue, share) === share);
    share = Math.ceil((op.max - picks.length) / queues.length);
  }
  return { picks, passed };
}

/** The ready tasks of a queue in the order of service. */
function lineOf(turn: Turn, queue: string): Entry[] {
  return [...turn.before.tasks.values()]
    .filter((task) => task.queue === queue && task.state === "ready")
    .map(({ id }) => turn.books.entries.get(id)!)
    .sort((a, b) => (b.task.priority ?? 0) - (a.task.priority ?? 0) || a.arrival - b.arrival);
}

function isKept({ books }: Turn, { keptUntil }: Entry): boolean {
  return keptUntil !== null && keptUntil > books.now;
}

function describe(task: ClaimedTask | Entry | undefined): string {
  if (!task) return "none";
  const { priority = 0, groupKey = null } = "task" in task ? task.task : task;
  return `${task.id} (priority ${priority}${groupKey === null ? "" : `, group ${groupKey}`})`;
}
