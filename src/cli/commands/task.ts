import { Command } from "commander";
import { confirm, type ConfirmFlags, withConfirmation } from "../confirm.ts";
import { ShellError } from "../exit.ts";
import { print, printJson } from "../output.ts";
import { addProgramVerbs } from "../program-verbs.ts";
import { type StoreFlags, useStore, withStore } from "../store.ts";
import { printTask } from "../task-lines.ts";
import { duration, parseJson, wholeNumber } from "../values.ts";

/** `dibs task`: one task, by its id. In a program that `dibs work` has started, also about its own task. */
export function taskCommand(): Command {
  const group = new Command("task");
  const of = (name: string, about: string): Command =>
    new Command(name).description(about).argument("<id>", "the task's id");
  group.addCommand(withStore(of("show", "show it, with its ledger")).action(showTask));
  group.addCommand(
    withStore(
      withConfirmation(of("cancel", "end it if it waits; ask its worker to stop if it is claimed")),
    ).action(cancel),
  );
  group.addCommand(
    withStore(
      of("signal", "send a signal to a task that waits for it, now or later")
        .argument("<name>", "the signal's name")
        .argument("[json]", "its data"),
    ).action(signal),
  );
  group.addCommand(
    withStore(of("retry", "run a task again that has ended, with all its attempts"))
      .option("--fresh", "without the steps of earlier attempts")
      .action(retry),
  );
  group.addCommand(
    withStore(of("update", "change a task that no worker has"))
      .option("--priority <number>", "higher first", wholeNumber)
      .option("--delay <duration>", "due this long from now; 0: now", duration)
      .option("--data <json>", "its payload")
      .action(update),
  );
  group.addCommand(withStore(of("promote", "make a scheduled task ready now")).action(promote));
  return addProgramVerbs(group);
}

async function showTask(id: string, flags: StoreFlags): Promise<void> {
  await useStore(flags, (dibs) => printTask(dibs, id, flags.json === true));
}

async function cancel(id: string, flags: StoreFlags & ConfirmFlags): Promise<void> {
  await useStore(flags, async (dibs) => {
    const before = await dibs.task(id).info();
    if (before.endedAt !== null)
      throw new ShellError("failed", `Task ${id} has already ended: it is ${before.state}.`);
    const isReal = await confirm(`Cancel task ${id} of ${before.queue}, which is ${before.state}`, flags);
    const state = isReal ? await dibs.task(id).cancel() : before.state;
    if (flags.json) printJson({ id, state, ...(!isReal && { dryRun: true }) });
    else if (isReal) print(state === "cancelled" ? "cancelled" : `${state}: its worker is asked to stop`);
  });
}

async function signal(id: string, name: string, json: string | undefined, flags: StoreFlags): Promise<void> {
  const data = json === undefined ? undefined : parseJson(json, "The signal's data");
  await useStore(flags, async (dibs) => {
    const stored = await dibs.task(id).signal(name, data);
    if (flags.json) printJson({ id, signal: name, stored });
    if (!stored)
      throw new ShellError(
        "failed",
        `The signal was not stored: the task has ended, already has a signal ${name}, or no longer waits for it.`,
      );
    if (!flags.json) print("stored");
  });
}

async function retry(
  id: string,
  { fresh = false, ...flags }: StoreFlags & { fresh?: boolean },
): Promise<void> {
  await useStore(flags, async (dibs) => {
    const { queue } = await dibs.task(id).info();
    await dibs.task(id).runAgain({ fresh });
    if (flags.json) printJson({ id, queue, redriven: true });
    else print(`${id} is in the line of ${queue} again`);
  });
}

interface UpdateFlags extends StoreFlags {
  priority?: number;
  delay?: number;
  data?: string;
}

async function update(id: string, { priority, delay, data, ...flags }: UpdateFlags): Promise<void> {
  const payload = data === undefined ? {} : { data: parseJson(data, "The payload") };
  await useStore(flags, async (dibs) =>
    report(id, await dibs.task(id).update({ priority, delay, ...payload }), flags),
  );
}

async function promote(id: string, flags: StoreFlags): Promise<void> {
  await useStore(flags, async (dibs) => report(id, await dibs.task(id).promote(), flags));
}

function report(id: string, state: string, flags: StoreFlags): void {
  if (flags.json) printJson({ id, state });
  else print(state);
}
