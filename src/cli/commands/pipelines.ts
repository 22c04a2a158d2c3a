import { Command } from "commander";
import { everyItem } from "../../core/answer/every-item.ts";
import type { PipelineRecord } from "../../core/answer/page.ts";
import type { Stage } from "../../core/run/run.ts";
import { isGraph } from "../../core/run/stage-graph.ts";
import { printJson, say } from "../output.ts";
import { type StoreFlags, useStore, withStore } from "../store.ts";
import { type Column, printTable } from "../table.ts";

export function pipelinesCommand(): Command {
  return withStore(new Command("pipelines")).action(run);
}

const COLUMNS: readonly Column<PipelineRecord>[] = [
  { head: "PIPELINE", cell: ({ name }) => name },
  {
    head: "STAGES",
    cell: ({ stages }) => stages.map(describeStage).join(isGraph(stages) ? ", " : " → "),
    isCut: true,
  },
];

function describeStage({ name, joins, after }: Stage): string {
  const details = [
    ...(joins ? ["joins"] : []),
    ...(after === undefined ? [] : [`after ${[after].flat().join(", ")}`]),
  ];
  return details.length > 0 ? `${name} (${details.join(" ")})` : name;
}

async function run(flags: StoreFlags): Promise<void> {
  await useStore(flags, async (dibs) => {
    const pipelines = await everyItem((page) => dibs.port.pipelines(page));
    if (flags.json) return printJson(pipelines);
    if (pipelines.length === 0) return say("There are no pipelines.");
    printTable(pipelines, COLUMNS);
  });
}
