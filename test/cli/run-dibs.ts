// Starts `dibs` as a person or a script does: a process with its own folder, or a real terminal.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import * as pty from "@lydell/node-pty";
import { onTestFinished } from "vitest";
import { bareEnvironment } from "../run/compile-cache.ts";

export const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

export function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "dibs-cli-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export function start(folder: string, args: string[], env: NodeJS.ProcessEnv = {}, uid?: number) {
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd: folder,
    env: { ...bareEnvironment(), ...env },
    ...(uid !== undefined && { uid, gid: uid }),
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

/** Runs a command to its end. */
export async function dibs(
  folder: string,
  args: string[],
  options: { env?: NodeJS.ProcessEnv; input?: string; uid?: number } = {},
) {
  const child = start(folder, args, options.env, options.uid);
  const text = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (part: string) => (text.stdout += part));
  child.stderr.setEncoding("utf8").on("data", (part: string) => (text.stderr += part));
  child.stdin.on("error", () => {});
  child.stdin.end(options.input ?? "");
  const [code] = (await once(child, "close")) as [number | null];
  return { code, ...text };
}

/** The value that a command prints with --json. */
export async function dibsJson(folder: string, ...args: string[]): Promise<unknown> {
  const { code, stdout, stderr } = await dibs(folder, [...args, "--json"]);
  if (code !== 0) throw new Error(`dibs ${args.join(" ")} ended with ${code}: ${stderr}`);
  return JSON.parse(stdout);
}

export async function serve(folder: string, ...flags: string[]) {
  const child = start(folder, ["serve", "--port", "0", ...flags]);
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  const url = /^dibs listens on (https?:\/\/\S+)$/.exec(line)?.[1];
  if (url === undefined) throw new Error(`dibs serve said ${line}`);
  return { child, url };
}

/** A command in a real terminal. */
export function inTerminal(folder: string, args: string[], env: NodeJS.ProcessEnv = {}) {
  const terminal = pty.spawn(process.execPath, [MAIN, ...args], {
    ...{ cwd: folder, cols: 120, rows: 30, name: "xterm-256color" },
    env: { ...bareEnvironment(), ...env },
  });
  let shown = "";
  let ended: number | undefined;
  const waiting = new Set<() => void>();
  const wake = (): void => waiting.forEach((check) => check());
  terminal.onData((part) => {
    shown += part;
    wake();
  });
  terminal.onExit(({ exitCode }) => {
    ended = exitCode;
    wake();
  });
  onTestFinished(() => {
    if (ended === undefined) terminal.kill("SIGKILL");
  });
  const wait = <T>(check: () => T | undefined, what: string): Promise<T> =>
    new Promise((resolve, reject) => {
      const tryIt = (): void => {
        const found = check();
        if (found !== undefined) resolve(found);
        else if (ended !== undefined) reject(new Error(`ended before ${what}; the terminal showed ${shown}`));
        else return;
        waiting.delete(tryIt);
      };
      waiting.add(tryIt);
      tryIt();
    });
  return {
    terminal,
    get shown() {
      return shown;
    },
    /** Waits until the terminal shows it. `from`: only what it showed since. */
    sees: (pattern: RegExp, from = 0) =>
      wait(() => pattern.exec(shown.slice(from)) ?? undefined, `showing ${pattern}`),
    end: () => wait(() => ended, "its end"),
  };
}
