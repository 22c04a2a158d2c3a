import { readFileSync } from "node:fs";

/** What the system knows about processes. Outside Linux, only whether they exist. */
export interface ProcessMark {
  pid: number;
  /** Distinguishes it from a later process with the same id; null: not known. */
  startedAt: string | null;
}

/** null: there is no such process. */
export function markOf(pid: number): ProcessMark | null {
  const fields = statOf(pid);
  if (fields) return fields[0] === "Z" ? null : { pid, startedAt: fields[19]! };
  return process.platform !== "linux" && exists(pid) ? { pid, startedAt: null } : null;
}

export function isRunning(mark: ProcessMark): boolean {
  const now = markOf(mark.pid);
  return now !== null && now.startedAt === mark.startedAt;
}

/** The process group of a process; its own id where that is not known. */
export function groupOf(pid: number): number {
  const fields = statOf(pid);
  return fields ? Number(fields[2]) : pid;
}

/** The fields after the name, which may contain blanks: state, parent, group, … */
function statOf(pid: number): string[] | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    return text.slice(text.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as { code?: string }).code === "EPERM";
  }
}
