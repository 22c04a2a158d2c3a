import { DibsError } from "../errors/errors.ts";
import { isOlder } from "./version.ts";

/**
 * Refuses a Node that is too old, as soon as this file is imported. Every entry point (library, shell, threads) imports
 * it first: modules run in the order of their imports, and on an old Node the next ones fail with errors that explain
 * nothing, or better-sqlite3 crashes the process.
 */

const OLDEST_NODE = "22.14.0";

export function checkNode(version: string): void {
  if (!isOlder(version, OLDEST_NODE)) return;
  throw new DibsError(
    "UNSUPPORTED",
    `dibs needs Node ${OLDEST_NODE} or newer; this is ${version}. Update Node.`,
  );
}

checkNode(process.versions.node);
