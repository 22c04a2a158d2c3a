/** What an operator does to a whole queue. Each says what and how many, and offers its form in the shell. */

import { call } from "../../api/call.ts";
import type { DepthByState } from "../../api/contract.ts";
import { countOf } from "../../format/number.ts";
import { quote } from "../../format/shell.ts";
import { ask } from "../../ui/dialog.tsx";
import { say } from "../../ui/toast.tsx";

export function askToPause(queue: string, isPaused: boolean, depth: DepthByState): void {
  const verb = isPaused ? "resume" : "pause";
  const waiting = countOf(depth.ready, "task");
  ask({
    title: isPaused ? `Resume ${queue}?` : `Pause ${queue}?`,
    children: isPaused
      ? `${waiting} may start again at once.`
      : `No task starts until somebody resumes it: ${waiting} would wait. ${countOf(depth.claimed, "running task")} finish.`,
    action: isPaused ? "Resume the queue" : "Pause the queue",
    command: `dibs queue ${verb} ${quote(queue)}`,
    run: async () => {
      await call(`v1/queues/${encodeURIComponent(queue)}/${verb}`, { method: "POST" });
      say(isPaused ? `${queue} hands out tasks again.` : `${queue} is paused.`);
    },
  });
}

export function askToPurge(queue: string, { ready, waiting, scheduled, parked }: DepthByState): void {
  const count = ready + waiting + scheduled + parked;
  ask({
    title: `Purge ${queue}?`,
    children:
      "This removes all tasks that wait, are scheduled or parked. Running tasks and dead letters stay. It cannot be undone.",
    action: `Remove ${countOf(count, "task")}`,
    danger: true,
    command: `dibs queue purge ${quote(queue)}`,
    run: async () => {
      const { count: removed } = await call<{ count: number }>(
        `v1/queues/${encodeURIComponent(queue)}/purge`,
        {
          method: "POST",
        },
      );
      say(`${countOf(removed, "task")} of ${queue} ${removed === 1 ? "was" : "were"} removed.`);
    },
  });
}
