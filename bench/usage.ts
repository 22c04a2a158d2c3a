import { readFileSync } from "node:fs";

/** What a process has used, as Linux counts it; zeros elsewhere. */
export function usageOf(pid: number): { megabytes: number; cpuMs: number } {
  try {
    const resident = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]!;
    // Fields 14 and 15, counted from behind the name; in hundredths of a second.
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /, "")
      .split(" ");
    return { megabytes: Number(resident) / 1_024, cpuMs: (Number(stat[11]) + Number(stat[12])) * 10 };
  } catch {
    return { megabytes: 0, cpuMs: 0 };
  }
}
