import { foldMessage } from "./fold-message.ts";
import type { TaskError } from "../task/task.ts";

/**
 * Names a kind of failure: errors that differ only in numbers, ids, addresses, times or quoted values have the same
 * fingerprint. Codes and the root cause tell errors apart whose messages are equal. It is readable text, so that a list
 * of patterns needs no legend.
 */
export function fingerprint({ name, message, stack = null }: Fingerprinted): string {
  const own = `${name}: ${foldMessage(message)}`;
  const cause = stack === null ? undefined : causeIn(stack);
  const codes = stack === null ? "" : codesIn(stack, `${own} ${cause ?? ""}`);
  if (cause === undefined) return `${own.slice(0, LONGEST - codes.length)}${codes}`;
  const tail = `${codes} ← ${cause}`.slice(0, LONGEST_TAIL);
  return `${own.slice(0, LONGEST - tail.length)}${tail}`;
}

type Fingerprinted = Pick<TaskError, "name" | "message"> & { stack?: string | null };

const LONGEST = 160;
const LONGEST_TAIL = 100;

/** The root cause, or the first of several errors: task-error.ts lists them under the stack. */
function causeIn(stack: string): string | undefined {
  const listed = [...stack.matchAll(/^(caused by|one of them) (.*)$/gm)];
  const found = listed.findLast(([, word]) => word === "caused by") ?? listed[0];
  if (!found) return undefined;
  const [, name, message] = /^([\w.$]+(?: \[\w+\])?): (.*)$/.exec(found[2]!) ?? [];
  return name === undefined ? foldMessage(found[2]!) : `${name}: ${foldMessage(message!)}`;
}

/** The codes in the stack that the messages do not contain. */
function codesIn(stack: string, told: string): string {
  const codes = [...stack.matchAll(/^with (?:code|status) (\S{1,40})$/gm)].map(([, code]) => code!);
  const more = codes.filter((code, index) => !told.includes(code) && codes.indexOf(code) === index);
  return more.length === 0 ? "" : ` [${more.slice(0, 2).join(", ")}]`;
}
