import type { Logger } from "../core/process/logger.ts";
import type { Port } from "../core/port.ts";
import type { SettleCall } from "../core/task/claim-call.ts";
import type { TaskState } from "../core/task/task.ts";
import { refusal } from "../core/handler/verification.ts";
import type { SettlementObserver } from "./claim.ts";
import type { FailedAttempt, FailureLog } from "./failure-log.ts";
import { callHook, type WorkerHooks } from "./hooks.ts";
import type { Task } from "./task.ts";

/** Follows the tasks of one worker: calls its hooks, and logs its failures. */
export class Observer implements SettlementObserver {
  readonly #port: Port;
  readonly #hooks: WorkerHooks;
  readonly #failures: FailureLog | undefined;
  readonly #logger: Logger;

  constructor(port: Port, hooks: WorkerHooks, failures: FailureLog | undefined, logger: Logger) {
    this.#port = port;
    this.#hooks = hooks;
    this.#failures = failures;
    this.#logger = logger;
  }

  claimed(task: Task): void {
    const { claimed } = this.#hooks;
    if (claimed) callHook("claimed", () => claimed(task), this.#logger);
  }

  /** A settlement took effect. `given` is the result, or what was thrown. */
  settled(task: Task, call: SettleCall, state: TaskState, given: unknown): void {
    // A task that was cancelled meanwhile ends cancelled, whatever its handler answered.
    if (state === "cancelled") return;
    switch (call.kind) {
      case "ack":
      case "accept":
        return this.#done(task, given);
      case "refuse":
        this.#done(task, given);
        this.#afterRefusal(call).catch(suppressed);
        return;
      case "nack":
      case "reject":
        return state === "dead" ? this.#dead(task, given) : this.#failed(task, given);
      default:
    }
  }

  /** The store ended the claim: its timeout or lease is over, or its queue was deleted. */
  lost(task: Task, error: unknown): void {
    this.#afterLoss(task, error).catch(suppressed);
  }

  async #afterLoss(task: Task, error: unknown): Promise<void> {
    // The task may be gone with its queue, or the store may not answer.
    const record = await this.#port.task(task.id).catch(() => undefined);
    const isSettledBefore = task.isSettled && task.storeError === undefined;
    if (!record || record.state === "cancelled" || isSettledBefore) return;
    if (record.state === "dead") this.#dead(task, error);
    else this.#failed(task, error);
  }

  #done(task: Task, result: unknown): void {
    const { done } = this.#hooks;
    if (done) callHook("done", () => done(task, result), this.#logger);
  }

  #failed(task: Task, error: unknown): void {
    const { failed } = this.#hooks;
    this.#failures?.failed(task, error);
    if (failed) callHook("failed", () => failed(task, error), this.#logger);
  }

  #dead(task: Task, error: unknown): void {
    const { dead } = this.#hooks;
    this.#failures?.dead(task, error);
    if (dead) callHook("dead", () => dead(task, error), this.#logger);
  }

  /** A verifier refused another task's result, which was an attempt of that task. */
  async #afterRefusal({ of, feedback }: SettleCall & { kind: "refuse" }): Promise<void> {
    const task = await this.#port.task(of.id).catch(() => undefined);
    if (!task || !this.#failures) return;
    const { id, queue, maxAttempts } = task;
    const refused: FailedAttempt = { id, queue, attempt: of.attempt, maxAttempts };
    if (task.state === "dead") this.#failures.dead(refused, refusal(feedback));
    else this.#failures.failed(refused, refusal(feedback));
  }
}

/** A user's logger that throws must not end the process. */
function suppressed(): void {}
