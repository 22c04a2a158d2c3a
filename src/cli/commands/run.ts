import { Command } from "commander";
import type { Dibs } from "../../api/dibs.ts";
import type { PartStatus, RunStatus, StageStatus } from "../../api/run-handle.ts";
import { isDibsError } from "../../core/errors/errors.ts";
import { confirm, type ConfirmFlags, withConfirmation } from "../confirm.ts";
import { notFound, ShellError } from "../exit.ts";
import { printFields, printHeading } from "../fields.ts";
import { formatDuration } from "../human.ts";
import { print, printJson } from "../output.ts";
import { type StoreFlags, useStore, withStore } from "../store.ts";
import { type Column, printTable } from "../table.ts";
import { parseJson } from "../values.ts";
import { colourOfRun } from "./runs.ts";

/** `dibs run`: one run of a pipeline, by its id. */
export function runCommand(): Command {
  const group = new Command("run");
  const of = (name: string, about: string): Command =>
    withStore(new Command(name).description(about).argument("<id>", "the run's id"));
  group.addCommand(of("show", "show how far it is, by stage and part").action(showRun));
  group.addCommand(withConfirmation(of("cancel", "cancel all its tasks that have not ended")).action(cancel));
  group.addCommand(
    of("signal", "send a signal to its tasks that wait for it, now or later")
      .argument("<name>", "the signal's name")
      .argument("[json]", "its data")
      .action(signal),
  );
  return group;
}

interface Row extends PartStatus {
  stage: StageStatus;
}

const COLUMNS: readonly Column<Row>[] = [
  { head: "STAGE", cell: ({ stage }) => stage.name },
  { head: "PART", cell: ({ part }) => part.join("."), isOptional: true },
  { head: "STATE", cell: ({ state }) => state, colour: ({ state }) => colourOfRun(state) },
  {
    head: "TOOK",
    cell: ({ startedAt, endedAt }) =>
      startedAt && endedAt ? formatDuration(endedAt.getTime() - startedAt.getTime()) : "",
    isOptional: true,
  },
  { head: "TASK", cell: ({ id }) => id },
];

async function showRun(id: string, flags: StoreFlags): Promise<void> {
  await useStore(flags, async (dibs) => {
    const status = await statusOf(dibs, id);
    if (flags.json) return printJson(status);
    printFields([
      ["id", status.id, "bold"],
      ["pipeline", status.pipeline],
      ["state", status.state, colourOfRun(status.state)],
      ["created", status.createdAt.toISOString()],
      ["ended", status.endedAt?.toISOString()],
    ]);
    printHeading("Tasks");
    printTable(rowsOf(status), COLUMNS);
  });
}

async function statusOf(dibs: Dibs, id: string): Promise<RunStatus> {
  try {
    return await dibs.run(id).status();
  } catch (error) {
    if (!isDibsError(error) || error.code !== "TASK_NOT_FOUND") throw error;
    throw notFound(
      `There is no run ${id} in this store. It may have ended longer ago than its queues' retention. See dibs runs PIPELINE.`,
    );
  }
}

function rowsOf({ stages }: RunStatus): Row[] {
  return stages.flatMap((stage) => stage.parts.map((part) => ({ ...part, stage })));
}

async function cancel(id: string, flags: StoreFlags & ConfirmFlags): Promise<void> {
  await useStore(flags, async (dibs) => {
    const { state: before, pipeline } = await statusOf(dibs, id);
    if (before !== "running" && before !== "dead")
      throw new ShellError("failed", `Run ${id} has already ended: it is ${before}.`);
    const isReal = await confirm(`Cancel run ${id} of ${pipeline}, which is ${before}`, flags);
    const state = isReal ? await dibs.run(id).cancel() : before;
    if (flags.json) printJson({ id, state, ...(!isReal && { dryRun: true }) });
    else if (isReal) print(state);
  });
}

async function signal(id: string, name: string, json: string | undefined, flags: StoreFlags): Promise<void> {
  const data = json === undefined ? undefined : parseJson(json, "The signal's data");
  await useStore(flags, async (dibs) => {
    const stored = await dibs.run(id).signal(name, data);
    if (flags.json) printJson({ id, signal: name, stored });
    if (!stored)
      throw new ShellError(
        "failed",
        `The signal was not stored: the run has ended, or already has a signal ${name}.`,
      );
    if (!flags.json) print("stored");
  });
}
