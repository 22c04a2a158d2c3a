import { Command } from "commander";
import type { Dibs } from "../../api/dibs.ts";
import type { QueueStats } from "../../api/queue-types.ts";
import { DEFAULT_POLICY, mergePolicy, parsePolicy, resolvePolicy } from "../../core/queue/policy.ts";
import type { QueueSummary } from "../../core/answer/page.ts";
import { PENDING_STATES } from "../../core/task/task.ts";
import { confirm, type ConfirmFlags, withConfirmation } from "../confirm.ts";
import { printFields, printHeading } from "../fields.ts";
import { count, formatDuration, formatRate } from "../human.ts";
import { print, printJson } from "../output.ts";
import { describePolicy, parseAssignments } from "../policy-values.ts";
import { requireQueue, type StoreFlags, useStore, withStore } from "../store.ts";
import { describeHeldBack } from "./queues.ts";

/** `dibs queue`: one queue, its policy and its tasks as a whole. */
export function queueCommand(): Command {
  const group = new Command("queue");
  const of = (name: string, about: string): Command =>
    withStore(new Command(name).description(about).argument("<queue>", "the queue's name"));
  group.addCommand(of("show", "show its statistics and its policy").action(showQueue));
  group.addCommand(
    withStore(
      new Command("set")
        .description("change its policy now, whatever programs declare")
        .argument("<queue>", "the queue's name")
        .argument(
          "<field=value...>",
          "such as lease=30s maxAttempts=3 backoff.delay=2s rateLimit=10/1s ttl=null",
        ),
    )
      .option("--create", "create the queue if it does not exist")
      .option("--dry-run", "print the policy that it would have, and change nothing")
      .action(setPolicy),
  );
  group.addCommand(of("pause", "hand out no tasks until it is resumed").action(setPaused(true)));
  group.addCommand(of("resume", "hand out tasks again").action(setPaused(false)));
  group.addCommand(
    withConfirmation(of("purge", "remove all tasks that are not claimed and have not ended")).action(purge),
  );
  group.addCommand(
    withConfirmation(of("delete", "remove the queue with all its tasks and dead letters")).action(remove),
  );
  return group;
}

async function showQueue(name: string, flags: StoreFlags): Promise<void> {
  await useStore(flags, async (dibs) => {
    const { policy, paused, createdAt } = await requireQueue(dibs, name);
    const stats = await dibs.queue(name).stats();
    if (flags.json) return printJson({ queue: name, paused, createdAt: new Date(createdAt), policy, stats });
    printStats(stats, createdAt);
    printHeading("Policy");
    printFields(
      describePolicy(policy).map(([field, value, isDefault]) => [
        field,
        value,
        isDefault ? "faint" : undefined,
      ]),
    );
  });
}

function printStats(stats: QueueStats, createdAt: number): void {
  const { queue, paused, depth, oldestAge, rates, failureRate, serviceTime, waitTime, workers } = stats;
  const states = Object.entries(depth).filter(([, tasks]) => tasks > 0);
  printFields([
    ["queue", queue, "bold"],
    ["state", paused ? "paused" : "open", paused ? "amber" : undefined],
    ["held back", describeHeldBack(stats.heldBack), "amber"],
    ["tasks", states.map(([state, tasks]) => `${tasks} ${state}`).join(", ") || "none"],
    ["oldest", oldestAge === null ? undefined : formatDuration(oldestAge)],
    ["in", `${formatRate(rates.addedPerSecond)}/s`],
    ["out", `${formatRate(rates.donePerSecond)}/s`],
    ["failures", failureRate === null ? undefined : `${(failureRate * 100).toFixed(1)} %`],
    ["wait", waitTime === null ? undefined : formatDuration(waitTime)],
    ["service", serviceTime === null ? undefined : formatDuration(serviceTime)],
    ["workers", workers],
    ["created", new Date(createdAt).toISOString()],
  ]);
}

async function setPolicy(
  name: string,
  assignments: string[],
  flags: StoreFlags & { create?: boolean; dryRun?: boolean },
): Promise<void> {
  // Refused before a store is opened: it may be far away.
  parsePolicy(parseAssignments(assignments, DEFAULT_POLICY));
  await useStore(flags, async (dibs) => {
    const { policy: before } = await queueOrNew(dibs, name, flags.create === true);
    const options = parseAssignments(assignments, before);
    const { dryRun = false } = flags;
    const policy = dryRun
      ? resolvePolicy(mergePolicy(before, parsePolicy(options)))
      : await dibs.queue(name).configure(options);
    if (flags.json) return printJson({ queue: name, policy, ...(dryRun && { dryRun }) });
    for (const [field, value] of describePolicy(policy))
      if (field in options) print(`${field} ${dryRun ? "would be" : "is"} ${value}`);
  });
}

async function queueOrNew(dibs: Dibs, name: string, create: boolean): Promise<Pick<QueueSummary, "policy">> {
  if (!create) return requireQueue(dibs, name);
  const [found] = (await dibs.port.queues({ queue: name })).items;
  return found ?? { policy: DEFAULT_POLICY };
}

function setPaused(paused: boolean) {
  return async (name: string, flags: StoreFlags): Promise<void> => {
    await useStore(flags, async (dibs) => {
      await requireQueue(dibs, name);
      const queue = dibs.queue(name);
      await (paused ? queue.pause() : queue.resume());
      if (flags.json) printJson({ queue: name, paused });
      else print(`${name} is ${paused ? "paused" : "open"}`);
    });
  };
}

async function purge(name: string, flags: StoreFlags & ConfirmFlags): Promise<void> {
  await useStore(flags, async (dibs) => {
    await requireQueue(dibs, name);
    const queue = dibs.queue(name);
    const { depth } = await queue.stats();
    const tasks = depth.ready + depth.waiting + depth.scheduled + depth.parked;
    const isReal = await confirm(`Purge ${count(tasks, "task")} of ${name}`, flags);
    const purged = isReal ? (await queue.purge()).count : tasks;
    if (flags.json) printJson({ queue: name, purged, ...(!isReal && { dryRun: true }) });
    else if (isReal) print(`purged ${count(purged, "task")}`);
  });
}

async function remove(name: string, flags: StoreFlags & ConfirmFlags): Promise<void> {
  await useStore(flags, async (dibs) => {
    await requireQueue(dibs, name);
    const { depth } = await dibs.queue(name).stats();
    const pending = PENDING_STATES.reduce((sum, state) => sum + depth[state], 0);
    const what = `Delete the queue ${name} with ${count(pending, "pending task")}, ${count(depth.claimed, "claim")} among them, and ${count(depth.dead, "dead letter")}`;
    const isReal = await confirm(what, flags);
    if (isReal) await dibs.queue(name).delete();
    if (flags.json) printJson({ queue: name, deleted: isReal, ...(!isReal && { dryRun: true }) });
    else if (isReal) print(`deleted ${name}`);
  });
}
