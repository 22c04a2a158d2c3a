import { Command } from "commander";
import type { Dibs } from "../../api/dibs.ts";
import type { ScheduleInfo } from "../../api/schedule.ts";
import { show } from "../../core/errors/show.ts";
import { confirm, type ConfirmFlags, withConfirmation } from "../confirm.ts";
import { notFound } from "../exit.ts";
import { formatAge, formatDuration } from "../human.ts";
import { didYouMean } from "../nearest.ts";
import { print, printJson, say } from "../output.ts";
import { type StoreFlags, useStore, withStore } from "../store.ts";
import { type Column, printTable } from "../table.ts";

/** `dibs schedules`: without a subcommand, the list. */
export function schedulesCommand(): Command {
  const group = new Command("schedules");
  const of = (name: string, about: string): Command =>
    withStore(new Command(name).description(about).argument("<name>", "the schedule's name"));
  const list = withStore(new Command("ls").description("list them, with their next firing time")).action(ls);
  group.addCommand(list, { isDefault: true });
  group.addCommand(of("pause", "fire no more until it is resumed").action(setPaused(true)));
  group.addCommand(of("resume", "fire again").action(setPaused(false)));
  group.addCommand(of("fire", "add its task now; its plan stays as it is").action(fire));
  group.addCommand(withConfirmation(of("delete", "remove it; tasks that it has added stay")).action(remove));
  return group;
}

const COLUMNS: readonly Column<ScheduleInfo>[] = [
  {
    head: "SCHEDULE",
    cell: ({ name, paused, ended }) => (paused ? `${name} (paused)` : ended ? `${name} (ended)` : name),
  },
  {
    head: "WHEN",
    cell: ({ cron, tz, every }) =>
      cron === null ? `every ${formatDuration(every!)}` : `${cron} ${tz ?? ""}`,
  },
  { head: "QUEUE", cell: ({ queue }) => queue },
  { head: "NEXT", cell: ({ next }) => formatAge(next[0] ?? null) },
  { head: "LAST", cell: ({ lastAt }) => formatAge(lastAt) },
  {
    head: "ERROR",
    cell: ({ error }) => error?.message ?? "",
    colour: () => "red",
    isOptional: true,
    isCut: true,
  },
];

async function ls(flags: StoreFlags): Promise<void> {
  await useStore(flags, async (dibs) => {
    const schedules = await dibs.schedules();
    if (flags.json) return printJson(schedules);
    if (schedules.length === 0) return say("There are no schedules.");
    printTable(schedules, COLUMNS);
  });
}

function setPaused(paused: boolean) {
  return async (name: string, flags: StoreFlags): Promise<void> => {
    await useStore(flags, async (dibs) => {
      await requireSchedule(dibs, name);
      const schedule = dibs.schedule(name);
      await (paused ? schedule.pause() : schedule.resume());
      if (flags.json) printJson({ schedule: name, paused });
      else print(`${name} is ${paused ? "paused" : "active"}`);
    });
  };
}

async function fire(name: string, flags: StoreFlags): Promise<void> {
  await useStore(flags, async (dibs) => {
    await requireSchedule(dibs, name);
    const { id, queue } = await dibs.schedule(name).fire();
    if (flags.json) printJson({ schedule: name, id, queue });
    else print(id);
  });
}

async function remove(name: string, flags: StoreFlags & ConfirmFlags): Promise<void> {
  await useStore(flags, async (dibs) => {
    await requireSchedule(dibs, name);
    const isReal = await confirm(`Delete the schedule ${name}`, flags);
    if (isReal) await dibs.schedule(name).delete();
    if (flags.json) printJson({ schedule: name, deleted: isReal, ...(!isReal && { dryRun: true }) });
    else if (isReal) print(`deleted ${name}`);
  });
}

async function requireSchedule(dibs: Dibs, name: string): Promise<void> {
  const names = (await dibs.schedules()).map((each) => each.name);
  if (names.includes(name)) return;
  throw notFound(`There is no schedule ${show(name)}.${didYouMean(name, names)} See dibs schedules.`);
}
