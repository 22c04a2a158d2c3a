import { invalid } from "../errors/errors.ts";
import { show } from "../errors/show.ts";

export const LONGEST_NAME = 128;
const NAME = /^[A-Za-z0-9](?:[A-Za-z0-9_.:/-]*[A-Za-z0-9])?$/;

/** Names appear in file names, metrics, routing keys and URLs: a small alphabet avoids escaping everywhere. */
export function checkQueueName(name: unknown): string {
  if (typeof name !== "string" || name.length > LONGEST_NAME || !NAME.test(name)) {
    throw invalid(
      `A queue name has 1 to ${LONGEST_NAME} characters: ASCII letters and digits, and _ . : / - between them; got ${show(name)}.`,
    );
  }
  return name;
}
