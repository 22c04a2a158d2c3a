import { checkChildrenSignal, isChildrenSignal } from "../core/handler/children-signal.ts";
import { LONGEST_MS } from "../core/time/duration.ts";
import { invalid } from "../core/errors/errors.ts";
import { LIMITS } from "../core/input/limits.ts";
import { checkBoolean, checkNumber } from "../core/input/options.ts";
import { type QueuePolicy, resolvePolicy } from "../core/queue/policy.ts";
import { checkQueueName } from "../core/queue/queue-name.ts";
import type { SettleRef, SettleCall } from "../core/task/claim-call.ts";
import type { TransactionOptions } from "../core/port.ts";
import { backoffDelay } from "../core/task/retry.ts";
import { show } from "../core/errors/show.ts";
import { checkSignalName } from "../core/handler/signal-name.ts";
import type { ClaimRef, TaskState } from "../core/task/task.ts";
import { checkNextCosts } from "../core/run/stage-cost.ts";
import { refusal } from "../core/handler/verification.ts";
import type { Settlement } from "../engine/settlement.ts";
import { expectTasks, withStoredKeys } from "./add.ts";
import { checkAdditions, checkBody } from "../core/task/additions.ts";
import { checkClaim, clipError } from "./check.ts";
import type { Context } from "./context.ts";

/** An ack is the most frequent settlement, so it creates no promise besides that of the gatherer. */
export function settle(
  context: Context,
  claim: SettleRef,
  call: SettleCall,
  within?: TransactionOptions,
): Promise<{ state: TaskState }> {
  if (call?.kind !== "ack" || within !== undefined) return settleGeneral(context, claim, call, within);
  try {
    return send(context, checkClaim(claim), settlementOf(context, call), call);
  } catch (error) {
    return Promise.reject(error);
  }
}

async function settleGeneral(
  context: Context,
  claim: SettleRef,
  call: SettleCall,
  { tx }: TransactionOptions = {},
): Promise<{ state: TaskState }> {
  const { id, fence } = checkClaim(claim);
  if (tx !== undefined) {
    if (call.kind !== "ack")
      throw invalid(`Only ack takes tx; got ${show(call.kind)}. Settle without tx, after your transaction.`);
    const settlement = settlementOf(context, call);
    return context.executeInTransaction(tx, { verb: "settle", id, fence, settlement, ...spentBy(call) });
  }
  if (call.kind === "refuse") return send(context, claim, await settlementOfRefusal(context, call), call);
  if (call.kind !== "nack" && call.kind !== "hold")
    return send(context, claim, settlementOf(context, call), call);
  // The policies of all claims made through this broker are in memory. A nack then reaches the gatherer without an
  // await, in the order of the calls.
  checkNumber(claim.attempt, "attempt", 1, Number.MAX_SAFE_INTEGER);
  const policy = context.policies.get(claim.queue) ?? (await fetchPolicy(context, claim.queue));
  return send(context, claim, settlementOfNack(context, claim, call, policy), call);
}

function send(
  context: Context,
  { id, fence }: ClaimRef,
  settlement: Settlement,
  call: SettleCall,
): Promise<{ state: TaskState }> {
  if (call.spent === undefined) return context.run({ verb: "settle", id, fence, settlement });
  return context.run({ verb: "settle", id, fence, settlement, ...spentBy(call) });
}

function spentBy({ spent }: SettleCall): { spent?: number } {
  return spent === undefined ? {} : { spent: checkNumber(spent, "spent", 0, LIMITS.cost) };
}

function settlementOf(
  context: Context,
  call: Exclude<SettleCall, { kind: "nack" | "hold" | "refuse" }>,
): Settlement {
  switch (call.kind) {
    case "ack":
      if (call.result !== null) checkBody(call.result, "A result");
      if (!call.each && call.next === undefined) return doneWith(context, call);
      if (call.next !== undefined) checkNextCosts(call.next);
      return {
        ...doneWith(context, call),
        ...(call.each && { each: true }),
        ...(call.next !== undefined && { next: call.next }),
      };
    case "accept":
      return { kind: "verdict", of: checkClaim(call.of), accepted: true };
    case "reject":
      return { kind: "reject", error: clipError(call.error) };
    case "release":
      if (typeof call.started !== "boolean")
        throw invalid(`started is true or false; got ${show(call.started)}.`);
      if (call.delay === undefined) return { kind: "release", started: call.started };
      checkNumber(call.delay, "delay", 0, LONGEST_MS);
      context.housekeeper.expect(call.delay);
      return { kind: "release", started: call.started, delay: call.delay };
    case "park":
      if (isChildrenSignal(call.signal)) checkChildrenSignal(call.signal);
      else checkSignalName(call.signal);
      if (call.timeout !== null) {
        checkNumber(call.timeout, "timeout", 0, LONGEST_MS);
        context.housekeeper.expect(call.timeout);
      }
      return { kind: "park", signal: call.signal, timeout: call.timeout };
    default:
      throw invalid(
        `A claim is settled by ack, nack, hold, reject, release or park; got ${show((call as SettleCall).kind)}.`,
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
  return { kind: "done", result, adds: withStoredKeys(adds) };
}

/** The engine decides whether this was the last attempt, because a lost lease needs the same rule. */
function settlementOfNack(
  context: Context,
  claim: SettleRef,
  call: SettleCall & { kind: "nack" | "hold" },
  policy: QueuePolicy,
): Settlement {
  if (call.delay !== undefined) checkNumber(call.delay, "delay", 0, LONGEST_MS);
  const delay = call.delay ?? backoffDelay(policy.backoff, claim.attempt, context.random);
  context.housekeeper.expect(delay);
  if (call.kind === "hold") return { kind: "hold", error: clipError(call.error), delay };
  context.housekeeper.expect(delay + policy.elsewhere);
  const settlement: Settlement = { kind: "fail", error: clipError(call.error), delay };
  if (call.outcome === undefined) return settlement;
  if (call.outcome !== "failed" && call.outcome !== "timeout")
    throw invalid(`outcome is "failed" or "timeout"; got ${show(call.outcome)}.`);
  return { ...settlement, outcome: call.outcome };
}

/** A refusal counts as a failure by the task's worker, so the policy of the verified task's queue decides the delay. */
async function settlementOfRefusal(
  context: Context,
  { of, feedback, keepSteps }: SettleCall & { kind: "refuse" },
): Promise<Settlement> {
  const { queue, attempt } = of;
  const verified = checkClaim(of);
  checkNumber(attempt, "attempt", 1, Number.MAX_SAFE_INTEGER);
  const { message } = clipError(refusal(feedback));
  const policy = context.policies.get(queue) ?? (await fetchPolicy(context, queue));
  const delay = backoffDelay(policy.backoff, attempt, context.random);
  context.housekeeper.expect(delay);
  context.housekeeper.expect(delay + policy.elsewhere);
  if (keepSteps !== undefined) checkBoolean(keepSteps, "keepSteps");
  return {
    ...{ kind: "verdict", of: verified, accepted: false, feedback: message, delay },
    ...(keepSteps && { keepSteps }),
  };
}

async function fetchPolicy(context: Context, queue: string): Promise<QueuePolicy> {
  const [record] = (await context.run({ verb: "queues", queue: checkQueueName(queue), limit: 1 })).items;
  // Do not remember unknown queue names: there can be arbitrarily many.
  if (!record) return resolvePolicy({});
  context.policies.set(queue, record.policy);
  return record.policy;
}
