import { type ChildProcessByStdio, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import type { Writable } from "node:stream";
import { GroupsFile } from "./groups-file.ts";

/**
 * Ends the programs of a supervisor that was killed. Each process that starts programs has one: OwnHost (host.ts) or
 * perl-launcher.ts.
 *
 * Node cannot ask the kernel to end its children with it. So a small shell waits at a pipe from the process that starts
 * programs. When that process dies, however it dies, the pipe ends, and the shell ends what is left. It finds programs
 * in two ways:
 *
 * - by the groups in the file that groups-file.ts describes;
 * - on Linux also by a mark in their environment. That finds a program that was started and is not in the file yet, and
 *   processes that left the group of their program.
 *
 * The pipe cannot end too early: a child holds a copy of its write end until it has become the program.
 */
export const SCRIPT = `
  trap '' INT TERM HUP QUIT
  [ -r "$GROUPS_FILE" ] || GROUPS_FILE=/dev/null
  exec 3<"$GROUPS_FILE"
  while read -r line; do :; done
  groups=$(cat <&3)
  marked() {
    [ -r /proc/self/environ ] || return 0
    grep -lsa "DIBS_SUPERVISOR=$MARK" /proc/[0-9]*/environ | cut -d / -f 3
  }
  send() {
    for group in $groups; do kill -s "$1" -- "-$group" 2>/dev/null; done
    for pid in $(marked); do kill -s "$1" "$pid" 2>/dev/null; done
  }
  alive() {
    for group in $groups; do kill -s 0 -- "-$group" 2>/dev/null && return 0; done
    [ -n "$(marked)" ]
  }
  if alive; then
    send TERM
    tries=0
    while [ "$tries" -lt "$TRIES" ] && alive; do sleep 0.1; tries=$((tries + 1)); done
    send KILL
  fi
  rm -rf -- "$FOLDER"`;

const POLL_MS = 100;

/** The environment of the shell. */
export function guardianEnvironment(options: GuardianOptions & { mark: string }): Record<string, string> {
  return {
    PATH: process.env["PATH"] ?? "/usr/bin:/bin",
    MARK: options.mark,
    FOLDER: options.folder,
    GROUPS_FILE: options.groupsFile,
    TRIES: String(Math.ceil(options.killAfter / POLL_MS)),
  };
}

export interface GuardianOptions {
  /** Removed in the end. */
  folder: string;
  groupsFile: string;
  /** Milliseconds between TERM and KILL. */
  killAfter: number;
}

/** A value of DIBS_SUPERVISOR in the environment of programs. */
export function newMark(): string {
  return randomBytes(12).toString("hex");
}

export class Guardian {
  /** The value of DIBS_SUPERVISOR in the environment of each program. */
  readonly mark = newMark();
  readonly #options: GuardianOptions;
  readonly #groups: GroupsFile;
  #shell: ChildProcessByStdio<Writable, null, null> | undefined;
  #isClosed = false;

  constructor(options: GuardianOptions) {
    this.#options = options;
    this.#groups = new GroupsFile(options.groupsFile);
    this.#start();
  }

  #start(): void {
    this.#shell = spawn("/bin/sh", ["-c", SCRIPT], {
      stdio: ["pipe", "ignore", "ignore"],
      // Signals of the terminal must not reach it.
      detached: true,
      env: guardianEnvironment({ ...this.#options, mark: this.mark }),
    });
    this.#shell.unref();
    (this.#shell.stdin as Writable & { unref?(): void }).unref?.();
    this.#shell.stdin.on("error", () => {});
    // The guardian was ended from outside. Start another one, because programs must not run without it.
    this.#shell.once("exit", () => {
      if (!this.#isClosed) this.#start();
    });
    this.#shell.once("error", () => {});
  }

  watch(group: number): void {
    this.#groups.add(group);
  }

  unwatch(group: number): void {
    this.#groups.remove(group);
  }

  /** Ends what is left, as if the supervisor had died, and waits for it. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const shell = this.#shell!;
    if (shell.exitCode === null && shell.signalCode === null) {
      const exited = new Promise((resolve) => shell.once("exit", resolve));
      shell.ref();
      shell.stdin.end();
      await exited;
    }
    this.#groups.close();
  }
}
