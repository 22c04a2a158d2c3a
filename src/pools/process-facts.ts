import { readdirSync, readFileSync } from "node:fs";

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

/** In the environment of all workers: they are found by it if the launcher that started them was killed. */
export const LAUNCHER_VARIABLE = "DIBS_LAUNCHER";

export function nameOfLauncher({ pid, startedAt }: ProcessMark): string {
  return `${pid}-${startedAt}`;
}

/** The processes that a launcher has started, and that run now. Outside Linux they cannot be found. */
export function startedBy(launcher: ProcessMark): number[] {
  const variable = `${LAUNCHER_VARIABLE}=${nameOfLauncher(launcher)}\0`;
  return pidsOf().filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, "latin1").includes(variable);
    } catch {
      // It has ended, or belongs to another user.
      return false;
    }
  });
}

function pidsOf(): number[] {
  if (process.platform !== "linux") return [];
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 0);
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
