import type { HostOptions } from "./host.ts";
import type { Ended } from "./launch.ts";

/** Messages between a supervisor (node-host.ts) and its launcher (launcher.ts). `id` numbers the programs. */
export type ToLauncher =
  /** The first message. The environment is the launcher's own. */
  | ({ kind: "configure"; passesErrors: boolean } & Omit<HostOptions, "env">)
  | { kind: "start"; id: number; env: Record<string, string>; input: string | Uint8Array }
  | { kind: "end" | "kill"; id: number };

export type FromLauncher =
  | { kind: "wrote"; id: number; chunk: Uint8Array }
  | { kind: "ended"; id: number; ended: Ended }
  | { kind: "notStarted"; id: number; message: string };
