import type { Command, Option } from "commander";
import type { Dibs } from "../api/dibs.ts";
import { everyItem } from "../core/answer/every-item.ts";
import { loadVerb, VERBS } from "./verbs.ts";

/**
 * What a shell may offer at the place of the cursor: verbs, subcommands, flags, values of flags, and names that are in
 * the store. `dibs completion` prints scripts that call `dibs complete`, which calls this.
 *
 * @param words the words after `dibs`, up to the cursor; the last one is what has been typed of the current word
 */
export async function complete(words: readonly string[]): Promise<string[]> {
  const typed = words.at(-1) ?? "";
  const before = words.slice(0, -1);
  const known = await candidates(before, typed);
  return [...new Set(known)].filter((each) => each.startsWith(typed)).toSorted();
}

async function candidates([first, ...rest]: readonly string[], typed: string): Promise<string[]> {
  const shown = VERBS.filter(({ isHidden }) => !isHidden);
  if (first === undefined)
    return typed.startsWith("-") ? ["--help", "--version"] : shown.map(({ name }) => name);
  if (first === "help") return shown.map(({ name }) => name);
  const verb = VERBS.find(({ name }) => name === first);
  if (!verb) return [];
  const { command, words } = descend(await loadVerb(verb), rest);
  // What follows is a program: the shell offers files.
  if (words.includes("--")) return [];
  const option = optionNamed(command, words.at(-1));
  if (option && takesValue(option)) return option.argChoices ?? [];
  if (typed.startsWith("-")) return [...command.options.flatMap(({ long }) => long ?? []), "--help"];
  if (command.commands.length > 0) return command.commands.map((each) => each.name());
  return namesFor(command, words);
}

/** The subcommand that the words lead to, and its own words. */
function descend(command: Command, words: readonly string[]): { command: Command; words: readonly string[] } {
  const found = command.commands.find((each) => each.name() === words[0]);
  return found ? descend(found, words.slice(1)) : { command, words };
}

function optionNamed(command: Command, word: string | undefined): Option | undefined {
  return word === undefined ? undefined : command.options.find(({ long }) => long === word);
}

function takesValue(option: Option): boolean {
  return option.required || option.optional;
}

/** Values of the next argument that is not a flag. */
async function namesFor(command: Command, words: readonly string[]): Promise<string[]> {
  let operands = 0;
  let url: string | undefined;
  let schema: string | undefined;
  for (let at = 0; at < words.length; at++) {
    const option = optionNamed(command, words[at]);
    if (!option) operands += words[at]!.startsWith("-") ? 0 : 1;
    else if (takesValue(option)) {
      at++;
      if (option.long === "--url") url = words[at];
      if (option.long === "--schema") schema = words[at];
    }
  }
  const declared = command.registeredArguments;
  const argument = declared[operands] ?? (declared.at(-1)?.variadic ? declared.at(-1) : undefined);
  if (argument?.argChoices) return argument.argChoices;
  const list = argument && NAMES[`${command.parent?.name() ?? ""} ${argument.name()}`.trim()];
  const flags = { ...(url !== undefined && { url }), ...(schema !== undefined && { schema }) };
  return list ? fromStore(flags, list) : [];
}

type List = (dibs: Dibs) => Promise<{ name: string }[]>;
const queues: List = (dibs) => dibs.queues();

/** By the name of the argument, after that of the verb if it has subcommands. */
const NAMES: Record<string, List> = {
  queue: queues,
  "queue queue": queues,
  "dead queue": queues,
  "schedules name": (dibs) => dibs.schedules(),
  pipeline: (dibs) => everyItem((page) => dibs.port.pipelines(page)),
};

/** A person waits for it while typing. */
const LONGEST_MS = 3_000;

/** None if the store does not answer: a completion has no place for an error. */
async function fromStore(flags: { url?: string; schema?: string }, list: List): Promise<string[]> {
  const { useStore } = await import("./store.ts");
  const names = useStore(flags, async (dibs) => (await list(dibs)).map(({ name }) => name)).catch(() => []);
  const late = new Promise<string[]>((resolve) => setTimeout(resolve, LONGEST_MS, []).unref());
  return Promise.race([names, late]);
}
