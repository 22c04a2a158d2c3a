// docs/reference/shell.md against the program's own help: every verb, subcommand, argument and flag, and no others.

import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { EXIT } from "../../src/cli/exit.ts";
import { loadVerb, VERBS } from "../../src/cli/verbs.ts";

const page = readFileSync(new URL("../../docs/reference/shell.md", import.meta.url), "utf8");
/** Described once, at the beginning of the page. */
const SHARED = new Set(["--url", "--schema", "--json", "--yes", "--dry-run"]);
/** Their guides describe the flags. */
const WITHOUT_FLAGS = new Set(["serve", "demo", "simulate", "work", "pool"]);

function usagesOf(command: Command, path = `dibs ${command.name()}`): string[] {
  if (command.commands.length > 0)
    return command.commands.flatMap((each) => usagesOf(each, `${path} ${each.name()}`));
  const args = command.registeredArguments.map((each) => {
    const name = `${each.name().toUpperCase()}${each.variadic ? "…" : ""}`;
    return each.required ? name : `[${name}]`;
  });
  return [[path, ...args].join(" ")];
}

function flagsOf(command: Command): string[] {
  return [...command.options.map((option) => option.long!), ...command.commands.flatMap(flagsOf)];
}

const sections = new Map(
  page
    .split(/^## /m)
    .slice(1)
    .map((text) => [text.slice(0, text.indexOf("\n")), text]),
);

/** `dibs complete` is called by scripts only. */
const shown = VERBS.filter(({ isHidden }) => !isHidden);

describe.each(shown)("dibs $name", (verb) => {
  const section = sections.get(`dibs ${verb.name}`) ?? "";

  test("the reference has each subcommand with its arguments", async () => {
    const missing = usagesOf(await loadVerb(verb)).filter((usage) => !section.includes(`\`${usage}`));
    expect(missing).toEqual([]);
  });

  test("the reference has each flag, and no others", async () => {
    if (WITHOUT_FLAGS.has(verb.name)) return;
    const flags = [...new Set(flagsOf(await loadVerb(verb)))].filter((flag) => !SHARED.has(flag));
    const named = new Set(section.match(/(?<![\w-])--[a-z][\w-]*/g));
    expect([...named].filter((flag) => !SHARED.has(flag)).toSorted()).toEqual(flags.toSorted());
  });
});

test("the reference has each exit code", () => {
  const codes = [...sections.get("Exit codes")!.matchAll(/^\| (\d+) \|/gm)].map((match) => Number(match[1]));
  expect(codes).toEqual(Object.values(EXIT));
});

test("every section of a verb is a verb of the program", () => {
  const verbs = [...sections.keys()].filter((title) => title.startsWith("dibs "));
  expect(verbs.toSorted()).toEqual(shown.map(({ name }) => `dibs ${name}`).toSorted());
});
