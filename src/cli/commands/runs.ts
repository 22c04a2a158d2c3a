import { Command, Option } from "commander";
import { RUN_STATES, type RunState } from "../../core/run/run.ts";
import { everyItem } from "../../core/answer/every-item.ts";
import type { RunInfo } from "../../api/run-handle.ts";
import { show } from "../../core/errors/show.ts";
import { notFound } from "../exit.ts";
import { formatAge, formatDuration } from "../human.ts";
import { didYouMean } from "../nearest.ts";
import { type Colour, printJson, say } from "../output.ts";
import { type StoreFlags, useStore, withStore } from "../store.ts";
import { type Column, printTable } from "../table.ts";
import { wholeNumber, withPages } from "../values.ts";

// `dibs runs`: lists the runs of a pipeline. `dibs run` uses its colours.

export function runsCommand(): Command {
  return withStore(
    withPages(
      new Command("runs")
        .argument("<pipeline>", "the pipeline's name")
        .addOption(new Option("--state <state>", "only runs in this state").choices(RUN_STATES)),
      wholeNumber,
    ),
  ).action(run);
}

export function colourOfRun(state: string): Colour | undefined {
  return state === "dead" ? "red" : state === "done" ? "green" : state === "running" ? "accent" : "faint";
}

const COLUMNS: readonly Column<RunInfo>[] = [
  { head: "ID", cell: ({ id }) => id },
  { head: "STATE", cell: ({ state }) => state, colour: ({ state }) => colourOfRun(state) },
  { head: "AGE", cell: ({ createdAt }) => formatAge(createdAt) },
  {
    head: "TOOK",
    cell: ({ createdAt, endedAt }) =>
      endedAt === null ? "" : formatDuration(endedAt.getTime() - createdAt.getTime()),
    isOptional: true,
  },
  { head: "STAGES", cell: ({ stages }) => stages.map(({ name }) => name).join(" → "), isCut: true },
];

async function run(
  pipeline: string,
  flags: StoreFlags & { state?: RunState; limit: number; after?: number },
): Promise<void> {
  await useStore(flags, async (dibs) => {
    const { state, after, limit } = flags;
    const { runs, next } = await dibs.pipeline(pipeline).runs({ state, after, limit });
    if (runs.length === 0 && after === undefined) {
      const names = (await everyItem((page) => dibs.port.pipelines(page))).map(({ name }) => name);
      if (!names.includes(pipeline))
        throw notFound(
          `There is no pipeline ${show(pipeline)}.${didYouMean(pipeline, names)} See dibs pipelines.`,
        );
    }
    if (flags.json) return printJson({ runs, next });
    if (runs.length === 0)
      return say(state ? `${pipeline} has no runs that are ${state}.` : `${pipeline} has no runs.`);
    printTable(runs, COLUMNS);
    if (next !== null) say(`There are more: --after ${next}`);
  });
}
