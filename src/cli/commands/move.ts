import { Command } from "commander";
import type { Dibs } from "../../api/dibs.ts";
import { open } from "../../api/open.ts";
import { isDibsError } from "../../core/errors.ts";
import type { TransferStore } from "../../engine/transfer.ts";
import { cancelMove, moveStore } from "../../transfer/move.ts";
import { openTransfer } from "../../transfer/open.ts";
import { count, describe, say, watch, withTransfer } from "../transfer.ts";

interface Flags {
  wait?: boolean;
  cancel?: boolean;
  fromSchema?: string;
  toSchema?: string;
}

export function moveCommand(): Command {
  return new Command("move")
    .description("move all that a store holds to a new one; interrupted, the same command goes on")
    .argument("<from>", "a file or a postgres:// address")
    .argument("<to>", "the same; it is made if it is not there")
    .option("--wait", "wait for claimed tasks to be settled, and hand out no more meanwhile")
    .option("--cancel", "give up a move that was interrupted: FROM can be used again")
    .option("--from-schema <name>", "PostgreSQL: the schema that holds the tables of FROM")
    .option("--to-schema <name>", "PostgreSQL: the schema that holds the tables of TO")
    .action(run);
}

async function run(from: string, to: string, flags: Flags): Promise<void> {
  const { wait = false, cancel = false, fromSchema, toSchema } = flags;
  const ofSource = { ...(fromSchema !== undefined && { schema: fromSchema }) };
  const ofTarget = { create: !cancel, ...(toSchema !== undefined && { schema: toSchema }) };
  await withTransfer(from, ofSource, async (source) => {
    const target = await openTransfer(to, ofTarget).catch((error: unknown) => {
      // Given up and deleted.
      if (cancel && isDibsError(error) && error.code === "INVALID") return undefined;
      throw error;
    });
    try {
      if (cancel) await giveUp(source, target);
      else await moveAll(source, target!, wait, () => open(from, { ...ofSource, create: false }));
    } finally {
      await target?.close();
    }
  });
}

async function giveUp(source: TransferStore, target: TransferStore | undefined): Promise<void> {
  await cancelMove(source, target);
  say(`Given up. ${source.label} can be used again.`);
  if (target) say(`Delete ${target.label} if it holds part of the move.`);
}

/** `openStore`: while it waits for claims somebody has to end those of workers that are gone. */
async function moveAll(
  source: TransferStore,
  target: TransferStore,
  wait: boolean,
  openStore: () => Promise<Dibs>,
): Promise<void> {
  const watched = watch(
    "moved",
    `${source.label} stays closed. Run the same command to go on, or with --cancel to give the move up.`,
  );
  let keeper: Promise<Dibs> | undefined;
  const onWaiting = (claimed: number): void => {
    say(`Waiting for ${count(claimed, "claimed task")} …`);
    keeper ??= openStore();
    keeper.catch(() => {});
  };
  try {
    const progress = await moveStore(source, target, { ...watched.hooks, wait, onWaiting });
    watched.end();
    say(
      progress.records > 0
        ? `Moved ${describe(progress)} from ${source.label} to ${target.label}.`
        : `All of ${source.label} had arrived in ${target.label} before.`,
    );
    say(
      `${source.label} is kept as it was and cannot be opened any more. Delete it when you do not need it.`,
    );
  } finally {
    watched.end();
    await (await keeper?.catch(() => undefined))?.close();
  }
}
