/** Lines of JSON between a pool and its launcher (launcher.ts). */
export type ToLauncher =
  | { kind: "configure"; stopTimeout: number }
  | {
      kind: "start";
      id: number;
      command: string[];
      env: Record<string, string | undefined>;
      cwd?: string;
      output: "inherit" | "ignore";
    }
  /** To the worker's process group. */
  | { kind: "signal"; id: number; signal: "SIGTERM" | "SIGKILL" };

export type FromLauncher =
  | { kind: "started"; id: number; pid: number }
  | { kind: "exited"; id: number; code: number | null; signal: string | null; tail: string };
