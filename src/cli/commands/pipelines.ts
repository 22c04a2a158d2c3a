import { Command } from "commander";
import { everyItem } from "../../core/every-item.ts";
import type { PipelineRecord } from "../../core/page.ts";
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
    cell: ({ stages }) => stages.map(({ name, joins }) => (joins ? `${name} (joins)` : name)).join(" → "),
    isCut: true,
  },
];

async function run(flags: StoreFlags): Promise<void> {
  await useStore(flags, async (dibs) => {
    const pipelines = await everyItem((page) => dibs.port.pipelines(page));
    if (flags.json) return printJson(pipelines);
    if (pipelines.length === 0) return say("There are no pipelines.");
    printTable(pipelines, COLUMNS);
  });
}
