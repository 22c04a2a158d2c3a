import { Command } from "commander";
import type { Dibs } from "../../api/dibs.ts";
import { open } from "../../api/open.ts";
import { isDibsError } from "../../core/errors/errors.ts";
import type { TransferStore } from "../../engine/transfer.ts";
import { cancelMove, moveStore } from "../../transfer/move.ts";
import { openTransfer } from "../../transfer/open.ts";
import { count } from "../human.ts";
import { say } from "../output.ts";
import { describe, watch, withTransfer } from "../transfer.ts";

// `dibs move`: moves a store with `transfer/move.ts`, shows the progress, and continues or cancels an interrupted move.

interface Flags {
  wait?: boolean;
  cancel?: boolean;
  fromSchema?: string;
  toSchema?: string;
}

export function moveCommand(): Command {
  return new Command("move")
    .argument("<from>", "a file or a postgres:// address")
    .argument("<to>", "a file or a postgres:// address; created if it does not exist")
    .option("--wait", "wait until claimed tasks are settled, and hand out no more meanwhile")
    .option("--cancel", "cancel an interrupted move: FROM can be used again")
    .option("--from-schema <name>", "PostgreSQL: the schema that contains the tables of FROM")
    .option("--to-schema <name>", "PostgreSQL: the schema that contains the tables of TO")
    .action(run);
}

async function run(from: string, to: string, flags: Flags): Promise<void> {
  const { wait = false, cancel = false, fromSchema, toSchema } = flags;
  const ofSource = { ...(fromSchema !== undefined && { schema: fromSchema }) };
  const ofTarget = { create: !cancel, ...(toSchema !== undefined && { schema: toSchema }) };
  await withTransfer(from, ofSource, async (source) => {
    const target = await openTransfer(to, ofTarget).catch((error: unknown) => {
      // The target was deleted.
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
  say(`Cancelled. ${source.label} can be used again.`);
  if (target) say(`Delete ${target.label} if it contains part of the move.`);
}

/** `openStore`: while the move waits, an open store ends the claims of workers that are gone. */
async function moveAll(
  source: TransferStore,
  target: TransferStore,
  wait: boolean,
  openStore: () => Promise<Dibs>,
): Promise<void> {
  const watched = watch(
    "moved",
    `${source.label} stays closed. Run the same command to continue, or with --cancel to cancel the move.`,
  );
  let waitingStore: Promise<Dibs> | undefined;
  const onWaiting = (claimed: number): void => {
    say(`Waiting for ${count(claimed, "claimed task")} …`);
    waitingStore ??= openStore();
    waitingStore.catch(() => {});
  };
  try {
    const progress = await moveStore(source, target, { ...watched.hooks, wait, onWaiting });
    watched.end();
    say(
      progress.records > 0
        ? `Moved ${describe(progress)} from ${source.label} to ${target.label}.`
        : `Everything in ${source.label} had already arrived in ${target.label}.`,
    );
    say(`${source.label} is unchanged and can no longer be opened. Delete it when you do not need it.`);
  } finally {
    watched.end();
    await (await waitingStore?.catch(() => undefined))?.close();
  }
}
