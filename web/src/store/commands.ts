/** What the palette offers. */

import { go, linkTo } from "../router/route.ts";
import { PAGES } from "../pages/pages.ts";
import { queues } from "./figures.ts";
import { nextTheme } from "./preferences.ts";

export interface Command {
  name: string;
  kind: string;
  run(): void;
}

const MOST = 50;
const TASK_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export function findCommands(text: string): Command[] {
  const wanted = text.trim().toLowerCase();
  if (TASK_ID.test(wanted)) return [visit(`Open task ${wanted}`, "task", ["tasks", wanted])];
  const all = [
    ...PAGES.map(({ name, path }) => visit(name, "page", path)),
    ...[...(queues.value?.keys() ?? [])].map((name) => visit(name, "queue", ["queues", name])),
    { name: "Change the theme", kind: "action", run: nextTheme },
  ];
  const found = all.filter(({ name }) => isMatch(name.toLowerCase(), wanted)).slice(0, MOST);
  if (wanted === "") return found;
  const search = {
    ...{ name: `Search tasks for “${text.trim()}”`, kind: "tasks" },
    run: () => go(linkTo(["tasks"], { q: text.trim() })),
  };
  return [...found, search];
}

function visit(name: string, kind: string, path: string[]): Command {
  return { name, kind, run: () => go(linkTo(path)) };
}

/** All characters, in order: "dl" finds "Dead letters". */
export function isMatch(name: string, wanted: string): boolean {
  let at = 0;
  for (const character of wanted) {
    at = name.indexOf(character, at) + 1;
    if (at === 0) return false;
  }
  return true;
}
