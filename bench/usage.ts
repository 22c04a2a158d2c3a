import { readdirSync, readFileSync } from "node:fs";

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

/** The memory of all processes of a group: a server may be started by a script. */
export function megabytesOfGroup(group: number): number {
  const members = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && groupOf(name) === group);
  return members.reduce((sum, name) => sum + usageOf(Number(name)).megabytes, 0);
}

function groupOf(pid: string): number | undefined {
  try {
    // Field 5, counted from behind the name.
    return Number(
      readFileSync(`/proc/${pid}/stat`, "utf8")
        .replace(/^.*\) /, "")
        .split(" ")[2],
    );
  } catch {
    return undefined;
  }
}
