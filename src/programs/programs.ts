import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Task } from "../worker/task.ts";
import { factsOf } from "./facts.ts";
import { type Host, OwnHost } from "./host.ts";
import { type Ended, NotStarted, type Running } from "./launch.ts";
import { type LauncherKind, startLaunchers } from "./launchers.ts";
import { outcomeOf } from "./outcome.ts";
import { hasPerl } from "./perl-launcher.ts";
import { type FindQueue, TaskSocket } from "./task-socket.ts";

/**
 * Programs as workers: one process for each task. `dibs work` gives `handle` to a worker, which claims, sends
 * heartbeats and settles.
 */

export interface ProgramsOptions {
  command: readonly string[];
  /** The environment of the programs, without what dibs adds. */
  env: Record<string, string>;
  findQueue: FindQueue;
  /** Milliseconds between TERM and KILL. */
  killAfter: number;
  /** How many programs run at a time. Null: one program, and then no other. */
  concurrency: number | null;
  /** What starts the programs. Perl, if it is there. */
  launcher?: LauncherKind;
  /** What programs write to standard error, as it comes. */
  onError?: ((task: Task, chunk: Buffer) => void) | undefined;
  /** Called when a program has ended, before its task is settled. */
  onEnded?: ((task: Task, ended: Ended) => void) | undefined;
  /** The program could not be started. Its task is released: it has not failed. */
  onNotStarted(error: NotStarted): void;
}

/** How long a task waits whose program could not be started. */
const NOT_STARTED_MS = 1_000;

export class Programs {
  readonly #options: ProgramsOptions;
  readonly #folder = mkdtempSync(join(socketRoot(), "dibs-"));
  readonly #host: Host;
  readonly #running = new Map<Running, Promise<unknown>>();
  readonly #freeSockets: TaskSocket[] = [];
  #sockets = 0;
  #isKilled = false;

  constructor(options: ProgramsOptions) {
    this.#options = options;
    const { command, env, killAfter, concurrency, onError, launcher } = options;
    const shared = { command, env, killAfter, folder: this.#folder };
    // For one program, to start another process would take longer than it saves.
    if (concurrency === null) this.#host = new OwnHost(shared);
    else {
      const kind = launcher ?? (hasPerl() ? "perl" : "node");
      this.#host = startLaunchers({ ...shared, kind, concurrency, passesErrors: onError !== undefined });
    }
  }

  /** Programs that run now. */
  get active(): number {
    return this.#running.size;
  }

  /** The handler of the worker: runs the program on one task. */
  handle = async (task: Task, worker: string): Promise<unknown> => {
    task.signal.throwIfAborted();
    const socket = this.#freeSockets.pop() ?? (await this.#openSocket());
    try {
      const ended = await this.#run(task, worker, socket);
      this.#options.onEnded?.(task, ended);
      task.signal.throwIfAborted();
      // Its end says nothing about the task.
      if (this.#isKilled) return await task.release();
      return await outcomeOf(task, ended);
    } catch (error) {
      if (!(error instanceof NotStarted)) throw error;
      this.#options.onNotStarted(error);
      await task.release({ delay: NOT_STARTED_MS });
      return undefined;
    } finally {
      socket.end();
      this.#freeSockets.push(socket);
    }
  };

  async #run(task: Task, worker: string, socket: TaskSocket): Promise<Ended> {
    const { onError } = this.#options;
    const program = this.#host.start({
      env: { ...factsOf(task, worker), DIBS_SOCKET: lend(socket, task) },
      input: task.body,
      onError: onError && ((chunk) => onError(task, chunk)),
    });
    const end = (): void => program.end();
    task.signal.addEventListener("abort", end);
    this.#running.set(program, program.ended);
    try {
      return await program.ended;
    } finally {
      task.signal.removeEventListener("abort", end);
      this.#running.delete(program);
    }
  }

  async #openSocket(): Promise<TaskSocket> {
    return TaskSocket.open(this.#folder, this.#sockets++, this.#options.findQueue);
  }

  /** Ends all programs at once, and waits until they are gone. Their tasks are released. */
  async kill(): Promise<void> {
    this.#isKilled = true;
    for (const program of this.#running.keys()) program.kill();
    await Promise.allSettled(this.#running.values());
  }

  /** Waits for programs that still end, and removes the sockets. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#running.values());
    for (const socket of this.#freeSockets) socket.close();
    await this.#host.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** If a launcher was killed, the folder of the sockets is gone: no fault of this task. */
function lend(socket: TaskSocket, task: Task): string {
  try {
    return socket.begin(task);
  } catch (error) {
    throw new NotStarted((error as Error).message, { cause: error });
  }
}

/** A path of a Unix socket has at most about 100 characters, and folders for temporary files can be deep. */
function socketRoot(): string {
  const root = tmpdir();
  return root.length > 60 ? "/tmp" : root;
}
