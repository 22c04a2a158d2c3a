import { type ChildProcessByStdio, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import type { Writable } from "node:stream";

/**
 * Ends the programs of a supervisor that was killed. OwnHost (host.ts) starts one for each supervisor.
 *
 * Node cannot ask the kernel to end its children with it. So a small shell reads a pipe from the supervisor: the
 * process groups that run now, and where the sockets are. When the supervisor dies, however it dies, the pipe ends, and
 * the shell ends what is left. It finds programs in two ways:
 *
 * - by the groups that were reported to it;
 * - on Linux also by a mark in their environment. That finds a program that was started and not yet reported, and
 *   processes that left the group of their program.
 *
 * The pipe cannot end too early: a child holds a copy of its write end until it has become the program.
 */
const SCRIPT = `
  trap '' INT TERM HUP QUIT
  groups=' '
  while read -r word group; do
    case $word in
      +) groups="$groups$group " ;;
      -) case $groups in *" $group "*) groups="\${groups%% "$group" *} \${groups#* "$group" }" ;; esac ;;
    esac
  done
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
/** The longest time until the shell learns that a group has ended. */
const ENDED_MS = 50;

export class Guardian {
  /** The value of DIBS_SUPERVISOR in the environment of each program. */
  readonly mark = randomBytes(12).toString("hex");
  readonly #folder: string;
  readonly #killAfter: number;
  readonly #groups = new Set<number>();
  #shell: ChildProcessByStdio<Writable, null, null> | undefined;
  #isClosed = false;
  /** Lines about groups that have ended. */
  #ended = "";

  /** @param folder removed in the end @param killAfter milliseconds between TERM and KILL */
  constructor(folder: string, killAfter: number) {
    this.#folder = folder;
    this.#killAfter = killAfter;
    this.#start();
  }

  #start(): void {
    this.#shell = spawn("/bin/sh", ["-c", SCRIPT], {
      stdio: ["pipe", "ignore", "ignore"],
      // Signals of the terminal must not reach it.
      detached: true,
      env: {
        PATH: process.env["PATH"],
        MARK: this.mark,
        FOLDER: this.#folder,
        TRIES: String(Math.ceil(this.#killAfter / POLL_MS)),
      },
    });
    this.#shell.unref();
    (this.#shell.stdin as Writable & { unref?(): void }).unref?.();
    this.#shell.stdin.on("error", () => {});
    // Somebody ended it: programs must not be without one.
    this.#shell.once("exit", () => {
      if (this.#isClosed) return;
      this.#start();
      this.#ended = "";
      for (const group of this.#groups) this.#say(`+ ${group}\n`);
    });
    this.#shell.once("error", () => {});
  }

  watch(group: number): void {
    this.#groups.add(group);
    this.#say(`${this.#ended}+ ${group}\n`);
    this.#ended = "";
  }

  /** Told with the next group that is watched, or a moment later: each write wakes the shell. */
  unwatch(group: number): void {
    this.#groups.delete(group);
    if (this.#ended === "") setTimeout(() => this.#tellEnded(), ENDED_MS).unref();
    this.#ended += `- ${group}\n`;
  }

  #tellEnded(): void {
    if (this.#ended !== "") this.#say(this.#ended);
    this.#ended = "";
  }

  /** Ends what is left, as if the supervisor had died, and waits for it. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const shell = this.#shell!;
    if (shell.exitCode !== null || shell.signalCode !== null) return;
    const exited = new Promise((resolve) => shell.once("exit", resolve));
    this.#tellEnded();
    shell.ref();
    shell.stdin.end();
    await exited;
  }

  #say(lines: string): void {
    this.#shell!.stdin.write(lines);
  }
}
