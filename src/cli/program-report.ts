import { showAttempt } from "../core/task/retry.ts";
import { StringDecoder } from "node:string_decoder";
import type { Ended } from "../programs/launch.ts";
import { PROGRAM_EXIT, reasonOf } from "../programs/outcome.ts";
import type { Task } from "../worker/task.ts";
import { EXIT } from "./exit.ts";
import { count } from "./human.ts";
import { printJson, say } from "./output.ts";

/** What `dibs work` says about its programs: a line for each failure, or with --json a line for each task. */
export class ProgramReport {
  readonly #json: boolean;
  #done = 0;
  #failed = 0;
  /** No task came in time. */
  isEmpty = false;
  /** Ctrl-C. */
  isInterrupted = false;
  /** Fences of tasks whose program succeeded, and whose success is not stored yet. */
  readonly #succeeded = new Set<number>();
  /** Begun lines of standard error, by fence. */
  readonly #lines = new Map<number, { decoder: StringDecoder; begun: string }>();

  constructor({ json = false }: { json?: boolean }) {
    this.#json = json;
  }

  /** A program has ended. If it succeeded, stored() or refused() follows. */
  ended(task: Task, ended: Ended): void {
    const { id, queue, attempt } = task;
    const isDone = ended.code === PROGRAM_EXIT.done && !task.signal.aborted;
    if (isDone) this.#succeeded.add(task.fence);
    else this.#failed++;
    this.#endLines(task);
    if (this.#json) {
      const { code, signal, output, errors } = ended;
      const bytes = { outputBytes: output.bytes, errorBytes: errors.bytes };
      printJson({ id, queue, attempt, code, signal, isAborted: task.signal.aborted, ...bytes });
    } else if (!isDone) {
      sayFailed(
        task,
        task.signal.aborted ? (task.signal.reason as Error).message : lastLine(reasonOf(ended)),
      );
    }
  }

  /** The success of a program is in the store. */
  stored(task: Task): void {
    if (this.#succeeded.delete(task.fence)) this.#done++;
  }

  /** The attempt failed although its program may have succeeded: a task that it added was refused, or its claim is lost. */
  refused(task: Task, error: unknown): void {
    if (!this.#succeeded.delete(task.fence)) return;
    this.#failed++;
    sayFailed(task, `the program succeeded, but ${(error as Error).message}`);
  }

  /** Prints whole lines, with the end of the task's id before each. */
  wrote({ id, fence }: Task, chunk: Buffer): void {
    const lines = this.#lines.get(fence) ?? { decoder: new StringDecoder("utf8"), begun: "" };
    this.#lines.set(fence, lines);
    const parts = (lines.begun + lines.decoder.write(chunk)).split("\n");
    lines.begun = parts.pop()!.slice(-LONGEST_LINE);
    for (const line of parts) say(`${id.slice(-12)}  ${line}`);
  }

  #endLines({ id, fence }: Task): void {
    const begun = this.#lines.get(fence)?.begun;
    if (begun) say(`${id.slice(-12)}  ${begun}`);
    this.#lines.delete(fence);
  }

  /** The last message, and the exit code of --once. */
  end({ once = false, json = false }: { once?: boolean; json?: boolean }): void {
    // Cancelled or taken back while its success was on the way to the store.
    this.#failed += this.#succeeded.size;
    if (once && process.exitCode === undefined) {
      if (this.isEmpty) process.exitCode = EXIT["no task"];
      else if (this.#failed > 0) process.exitCode = EXIT["task failed"];
      else if (this.#done === 0 && this.isInterrupted) process.exitCode = EXIT.interrupted;
    }
    if (json) return;
    if (this.isEmpty) say("dibs: no task came.");
    else if (!once) say(`dibs: ${count(this.#done, "task")} done, ${this.#failed} failed.`);
  }
}

function sayFailed({ id, queue, attempt, maxAttempts }: Task, why: string): void {
  say(`dibs: task ${id} of ${queue}, attempt ${showAttempt(attempt, maxAttempts)}: ${why}`);
}

const LONGEST_LINE = 64 * 1024;

function lastLine(text: string): string {
  const lines = text.split("\n");
  return lines.length === 1 ? text : `${lines[0]!.split(":", 1)[0]}: ${lines.at(-1)}`;
}
