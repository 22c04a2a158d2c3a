import { Command } from "commander";
import type { PoolDecision, PoolInfo } from "../../api/pool-info.ts";
import { show } from "../../core/errors/show.ts";
import { notFound } from "../exit.ts";
import { formatAge } from "../human.ts";
import { didYouMean } from "../nearest.ts";
import { printJson, say } from "../output.ts";
import { type StoreFlags, useStore, withStore } from "../store.ts";
import { type Column, printTable } from "../table.ts";
import { numberBetween } from "../values.ts";

// `dibs pools`: lists the pools of the store, or the last decisions of one.

interface Flags extends StoreFlags {
  limit: number;
}

export function poolsCommand(): Command {
  return withStore(new Command("pools"))
    .argument("[pool]", "print its last decisions")
    .option("--limit <number>", "at most this many decisions, up to 1000", numberBetween(1, 1_000), 20)
    .action(run);
}

const POOLS: Column<PoolInfo>[] = [
  { head: "POOL", cell: ({ name }) => name },
  { head: "QUEUES", cell: ({ queues }) => queues.join(", ") },
  { head: "MODE", cell: ({ mode }) => mode },
  { head: "SIZE", cell: ({ size }) => size },
  { head: "LIVE", cell: ({ workers }) => workers.live },
  { head: "BUSY", cell: ({ workers }) => workers.busy },
  { head: "BOUNDS", cell: ({ min, max }) => `${min}-${max}` },
  {
    head: "RUN BY",
    cell: ({ running, host, pid }) => (running ? `${host}/${pid}` : "no process"),
    colour: ({ running }) => (running ? undefined : "amber"),
  },
  { head: "WHY", cell: ({ reasons }) => reasons.join(" "), isCut: true },
];

const DECISIONS: Column<PoolDecision>[] = [
  { head: "AGE", cell: ({ at }) => formatAge(at) },
  { head: "DECISION", cell: ({ type }) => type.replace("pool.", "") },
  { head: "FROM", cell: ({ from }) => from ?? "" },
  { head: "TO", cell: ({ to }) => to ?? "" },
  { head: "WHY", cell: ({ reasons }) => reasons.join(" "), isCut: true },
];

async function run(name: string | undefined, flags: Flags): Promise<void> {
  await useStore(flags, async (dibs) => {
    const pools = await dibs.pools();
    if (name === undefined) {
      if (flags.json) return printJson(pools);
      if (pools.length === 0)
        return say("There are no pools yet. Start one: dibs pool emails -- ./send-mail.sh");
      return printTable(pools, POOLS);
    }
    const names = pools.map((pool) => pool.name);
    if (!names.includes(name))
      throw notFound(`There is no pool ${show(name)}.${didYouMean(name, names)} See dibs pools.`);
    const decisions = await dibs.poolDecisions(name, { limit: flags.limit });
    if (flags.json) return printJson(decisions);
    printTable(decisions, DECISIONS);
  });
}
