import { fileURLToPath } from "node:url";
import type { Dibs } from "../api/dibs.ts";
import { ownFile } from "../core/process/own-files.ts";

/** What a process of the demo does. child.ts runs it. */
export type Role = (dibs: Dibs, context: Context) => { ready?: Promise<unknown>; stop(): Promise<unknown> };

export interface Context {
  /** Of this process, such as mailer-2. */
  name: string;
  /** The last ones that start.ts sent. */
  settings: () => Settings;
  /** Aborts when the process should end. */
  signal: AbortSignal;
}

export interface Settings {
  /** Emails per second. */
  rate: number;
}

export type RoleName = "producer" | "mailer" | "agents" | "operator" | "researcher" | "exporter";

/** The program of a process with this role. */
export function commandOf(role: RoleName, name: string = role): [program: string, ...args: string[]] {
  return [process.execPath, fileURLToPath(ownFile("./child.ts", import.meta.url)), role, name];
}
