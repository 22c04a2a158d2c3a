import { readdirSync, readFileSync } from "node:fs";

export interface Usage {
  at: number;
  /** Voluntary context switches by thread: each is the end of a sleep. */
  wakeUps: Map<string, number>;
  cpuMs: number;
}

export function usageOf(pid: number): Usage {
  const wakeUps = new Map<string, number>();
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const status = readFileSync(`/proc/${pid}/task/${thread}/status`, "utf8");
    const name = /^Name:\s*(.*)$/m.exec(status)![1]!;
    if (name !== "V8Worker")
      wakeUps.set(`${name} ${thread}`, Number(/^voluntary_ctxt_switches:\s*(\d+)$/m.exec(status)![1]));
  }
  // Fields 14 and 15, counted from behind the name, which may contain spaces; in hundredths of a second.
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /, "")
    .split(" ");
  return { at: performance.now(), wakeUps, cpuMs: (Number(stat[11]) + Number(stat[12])) * 10 };
}

/**
 * Fewer than five wake-ups a second, all threads of the process together, and practically no CPU. V8's own pool is
 * excluded: in the background it compiles what a new process runs for the first few times, about once a second, and is
 * silent within a minute. (It is silent at once with --no-concurrent-recompilation --no-concurrent-sparkplug.)
 */
export function expectIdle(before: Usage, after: Usage): void {
  const seconds = (after.at - before.at) / 1_000;
  const byThread = [...after.wakeUps].map(
    ([thread, count]) => [thread, count - (before.wakeUps.get(thread) ?? 0)] as const,
  );
  const wakeUpsPerSecond = byThread.reduce((sum, [, count]) => sum + count, 0) / seconds;
  const cpuShare = (after.cpuMs - before.cpuMs) / (seconds * 1_000);
  const busy = byThread.filter(([, count]) => count > 0).map(([thread, count]) => `${thread}: ${count}`);
  if (wakeUpsPerSecond < 5 && cpuShare < 0.01) return;
  const [wakeUps, cpu] = [wakeUpsPerSecond.toFixed(1), (cpuShare * 100).toFixed(2)];
  throw new Error(
    `Not idle: ${wakeUps} wake-ups a second, ${cpu} % CPU. Over ${seconds} s: ${busy.join(", ")}`,
  );
}
