import { parsePart } from "../../../core/run/run-part.ts";
import { placeAt, type RunPlace, type Stage } from "../../../core/run/run.ts";
import { lookUp, rowsBy } from "../statements/look-up.ts";
import { numbers } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/** Column for statements that describe a task: its run, as JSON. */
export const RUN_OF = (task: string): string => `
  (SELECT json_build_array(run.id, run.created_at, run.pipeline, run.stages, run_part.stage, run_part.part)
   FROM ${rowsBy("run_part", { task })} AS run_part CROSS JOIN ${lookUp("run", `run.id = run_part.run`)})`;

export type OfRun = [
  run: number,
  createdAt: number,
  pipeline: string,
  stages: string,
  stage: string,
  part: string,
];

export function placeFrom(tx: Tx, [run, createdAt, pipeline, stages, stage, part]: OfRun): RunPlace {
  tx.runs.noteMet();
  const found = { id: tx.id(createdAt, run), pipeline, stages: JSON.parse(stages) as Stage[] };
  return placeAt(found, { stage, part: parsePart(part) });
}

const PLACES = `
  SELECT wanted.seq, ${RUN_OF("wanted.seq")} AS run FROM unnest($1::int8[]) AS wanted (seq)`;

export async function placesOf(tx: Tx, seqs: readonly number[]): Promise<Map<number, RunPlace>> {
  const rows = await tx.all<{ seq: number; run: OfRun | null }>(PLACES, numbers(seqs));
  return new Map(rows.flatMap(({ seq, run }) => (run ? [[seq, placeFrom(tx, run)] as const] : [])));
}
