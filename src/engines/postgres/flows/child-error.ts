import type { TaskError } from "../../../core/task/task.ts";
import { fromText, toText } from "../statements/text.ts";

/**
 * The error of a child whose task was removed, as JSON with the texts of `attempt`: flows/children.ts writes it in SQL.
 */

export function errorCell({ name, message, stack }: TaskError): string {
  const texts = {
    name: toText(name),
    message: toText(message),
    stack: stack === null ? null : toText(stack),
  };
  return JSON.stringify(texts);
}

export function errorFromCell(cell: string | null): TaskError | null {
  if (cell === null) return null;
  const { name, message, stack } = JSON.parse(cell) as TaskError;
  return { name: fromText(name), message: fromText(message), stack: stack === null ? null : fromText(stack) };
}
