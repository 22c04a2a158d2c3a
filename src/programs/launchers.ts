import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { Host, HostOptions, ProgramStart } from "./host.ts";
import { NotStarted, type Running } from "./launch.ts";
import { NodeHost } from "./node-host.ts";
import { PerlHost } from "./perl-host.ts";

/** A process that starts programs for this one: a small one does that faster (node-launcher.ts, perl-launcher.ts). */
export interface Launcher {
  /** Programs that run now. */
  readonly active: number;
  /** When the process is gone. */
  readonly exited: Promise<unknown>;
  /** Undefined: the process is gone. */
  start(task: ProgramStart): Running | undefined;
  /** Rejects what runs. */
  fail(error: NotStarted): void;
  /** Lets it end what is left, and then itself. */
  close(): void;
}

/** What starts the programs: Perl is faster, Node is always there. */
export type LauncherKind = "perl" | "node";

export interface LauncherOptions extends HostOptions {
  kind: LauncherKind;
  /** Programs that run at a time. */
  concurrency: number;
  /** Whether programs have an `onError`. */
  passesErrors: boolean;
}

/** Starts the launchers. A program goes to the one with the fewest. */
export function startLaunchers(options: LauncherOptions): Host {
  const { folder, passesErrors } = options;
  const launchers = Array.from({ length: countOf(options) }, (_, number) =>
    options.kind === "perl"
      ? new PerlHost(options, passesErrors, number)
      : new NodeHost(options, passesErrors),
  );
  for (const launcher of launchers) void failWhenLost(launcher, folder);
  return {
    start(task) {
      const first = launchers.reduce((best, each) => (each.active < best.active ? each : best));
      return first.start(task) ?? { ...idle, ended: Promise.reject(lost()) };
    },
    async close() {
      for (const launcher of launchers) launcher.close();
      await Promise.all(launchers.map(({ exited }) => exited));
    },
  };
}

/** Perl's select() takes 1,024 files, and a program has up to three. */
const MOST_PER_PERL = 250;
/** Node blocks until a program has begun, so several take turns. */
const MOST_OF_NODE = 4;

function countOf({ kind, concurrency }: LauncherOptions): number {
  if (kind === "perl") return Math.ceil(concurrency / MOST_PER_PERL);
  return Math.min(concurrency, availableParallelism(), MOST_OF_NODE);
}

/** Its guardian ends the programs, and removes the folder after that: until then a task must not run elsewhere. */
async function failWhenLost(launcher: Launcher, folder: string): Promise<void> {
  await launcher.exited;
  while (launcher.active > 0 && existsSync(folder)) await sleep(POLL_MS);
  launcher.fail(lost());
}

const POLL_MS = 50;
const idle = { end(): void {}, kill(): void {} };

function lost(): NotStarted {
  return new NotStarted("the process that starts programs was ended");
}
