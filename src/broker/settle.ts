import { LONGEST_MS } from "../core/duration.ts";
import { invalid } from "../core/errors.ts";
import { LIMITS } from "../core/limits.ts";
import { checkNumber, checkText } from "../core/options.ts";
import { type QueuePolicy, resolvePolicy } from "../core/policy.ts";
import { checkQueueName } from "../core/queue-name.ts";
import type { SettleRef, TransactionOptions, SettleCall } from "../core/port.ts";
import { backoffDelay } from "../core/retry.ts";
import { show } from "../core/show.ts";
import type { ClaimRef, TaskState } from "../core/task.ts";
import { checkNextCosts } from "../core/stage-cost.ts";
import { refusal } from "../core/verification.ts";
import type { Settlement } from "../engine/engine.ts";
import { expectTasks } from "./add.ts";
import { checkAdditions, checkBody, checkClaim, clipError } from "./check.ts";
import type { Context } from "./context.ts";

/** An ack is what is settled most: it costs no promise but the engine's. */
export function settle(
  context: Context,
  claim: SettleRef,
  word: SettleCall,
  within?: TransactionOptions,
): Promise<{ state: TaskState }> {
  if (word?.kind !== "ack" || within !== undefined) return settleElse(context, claim, word, within);
  try {
    return send(context, checkClaim(claim), settlementOf(context, word), word);
  } catch (error) {
    return Promise.reject(error);
  }
}

async function settleElse(
  context: Context,
  claim: SettleRef,
  word: SettleCall,
  { tx }: TransactionOptions = {},
): Promise<{ state: TaskState }> {
  const { id, fence } = checkClaim(claim);
  if (tx !== undefined) {
    if (word.kind !== "ack") throw invalid("Only an ack can be part of a transaction of yours.");
    const settlement = settlementOf(context, word);
    return context.runWithin(tx, { verb: "settle", id, fence, settlement, ...spentBy(word) });
  }
  if (word.kind === "refuse") return send(context, claim, await settlementOfRefusal(context, word), word);
  if (word.kind !== "nack" && word.kind !== "hold")
    return send(context, claim, settlementOf(context, word), word);
  // Known for every claim made here, so that a nack keeps its place among the calls of the moment.
  checkNumber(claim.attempt, "attempt", 1, Number.MAX_SAFE_INTEGER);
  const policy = context.policies.get(claim.queue) ?? (await fetchPolicy(context, claim.queue));
  return send(context, claim, settlementOfNack(context, claim, word, policy), word);
}

function send(
  context: Context,
  { id, fence }: ClaimRef,
  settlement: Settlement,
  word: SettleCall,
): Promise<{ state: TaskState }> {
  if (word.spent === undefined) return context.run({ verb: "settle", id, fence, settlement });
  return context.run({ verb: "settle", id, fence, settlement, ...spentBy(word) });
}

function spentBy({ spent }: SettleCall): { spent?: number } {
  return spent === undefined ? {} : { spent: checkNumber(spent, "spent", 0, LIMITS.cost) };
}

function settlementOf(
  context: Context,
  word: Exclude<SettleCall, { kind: "nack" | "hold" | "refuse" }>,
): Settlement {
  switch (word.kind) {
    case "ack":
      if (word.result !== null) checkBody(word.result, "A result");
      if (!word.each && word.next === undefined) return doneWith(context, word);
      if (word.next !== undefined) checkNextCosts(word.next);
      return {
        ...doneWith(context, word),
        ...(word.each && { each: true }),
        ...(word.next !== undefined && { next: word.next }),
      };
    case "accept":
      return { kind: "verdict", of: checkClaim(word.of), accepted: true };
    case "reject":
      return { kind: "reject", error: clipError(word.error) };
    case "release":
      if (typeof word.started !== "boolean")
        throw invalid(`started is true or false; got ${show(word.started)}.`);
      return { kind: "release", started: word.started };
    case "park":
      checkText(word.signal, "A signal's name", LIMITS.stepName);
      if (word.timeout !== null) {
        checkNumber(word.timeout, "timeout", 0, LONGEST_MS);
        context.keeper.expect(word.timeout);
      }
      return { kind: "park", signal: word.signal, timeout: word.timeout };
    default:
      throw invalid(
        `A claim is settled by ack, nack, hold, reject, release or park; got ${show((word as SettleCall).kind)}.`,
      );
  }
}

function doneWith(
  context: Context,
  { result, adds }: SettleCall & { kind: "ack" },
): Settlement & { kind: "done" } {
  if (!adds?.length) return { kind: "done", result };
  checkAdditions(adds);
  expectTasks(context, adds);
  return { kind: "done", result, adds };
}

/** Whether this was the last attempt is the engine's to say: a lost lease must find the same answer. */
function settlementOfNack(
  context: Context,
  claim: SettleRef,
  word: SettleCall & { kind: "nack" | "hold" },
  policy: QueuePolicy,
): Settlement {
  if (word.delay !== undefined) checkNumber(word.delay, "delay", 0, LONGEST_MS);
  const delay = word.delay ?? backoffDelay(policy.backoff, claim.attempt, context.random);
  context.keeper.expect(delay);
  if (word.kind === "hold") return { kind: "hold", error: clipError(word.error), delay };
  context.keeper.expect(delay + policy.elsewhere);
  const settlement: Settlement = { kind: "fail", error: clipError(word.error), delay };
  if (word.outcome === undefined) return settlement;
  if (word.outcome !== "failed" && word.outcome !== "timeout")
    throw invalid(`outcome is "failed" or "timeout"; got ${show(word.outcome)}.`);
  return { ...settlement, outcome: word.outcome };
}

/** As if its worker had failed it, by the policy of its own queue. */
async function settlementOfRefusal(
  context: Context,
  { of, feedback }: SettleCall & { kind: "refuse" },
): Promise<Settlement> {
  const { queue, attempt } = of;
  const judged = checkClaim(of);
  checkNumber(attempt, "attempt", 1, Number.MAX_SAFE_INTEGER);
  const { message } = clipError(refusal(feedback));
  const policy = context.policies.get(queue) ?? (await fetchPolicy(context, queue));
  const delay = backoffDelay(policy.backoff, attempt, context.random);
  context.keeper.expect(delay);
  context.keeper.expect(delay + policy.elsewhere);
  return { kind: "verdict", of: judged, accepted: false, feedback: message, delay };
}

async function fetchPolicy(context: Context, queue: string): Promise<QueuePolicy> {
  const [record] = await context.run({ verb: "queues", queue: checkQueueName(queue) });
  // What is no queue is not remembered: there is no end to such names.
  if (!record) return resolvePolicy({});
  context.policies.set(queue, record.policy);
  return record.policy;
}
