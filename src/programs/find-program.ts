import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import { invalid } from "../core/errors/errors.ts";
import { show } from "../core/errors/show.ts";

/**
 * The file of a program, found as a shell finds it. `dibs work` looks for it before it claims anything: with a mistyped
 * name every task would fail.
 */
export function findProgram(name: string): string {
  const candidates = name.includes("/")
    ? [name]
    : (process.env["PATH"] ?? "").split(delimiter).map((folder) => join(folder || ".", name));
  const found = candidates.find(isExecutable);
  if (found !== undefined) return found;
  const where = name.includes("/") ? "is not an executable file" : "is not on the PATH";
  throw invalid(`The program ${show(name)} ${where}. Give its path, or make it executable with chmod +x.`);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
