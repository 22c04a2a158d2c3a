import { lstatSync, readlinkSync, realpathSync, type Stats } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { showAddress } from "../core/process/address.ts";
import { invalid } from "../core/errors/errors.ts";
import { show } from "../core/errors/show.ts";

/**
 * Finds the real path of a file and checks whether it may be used: for the file of a store, and the token file of a
 * server.
 */

/** The path in an address of the kind "file": a path, or file:///… */
export function filePathOf(address: string): string {
  if (!/^file:\/\//i.test(address)) return address;
  let path: string;
  try {
    path = fileURLToPath(address);
  } catch (error) {
    throw invalid(
      `${showAddress(address)} names no file (${codeOf(error)}). Write file:///folder/work.db, or the plain path.`,
    );
  }
  if (path === path.trim() && !path.includes("\0")) return path;
  throw invalid(`The path of a store must not begin or end with a blank, or contain NUL; got ${show(path)}.`);
}

/** Why a file cannot be read, without its name and its contents. */
export function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? (error as Error).name;
}

const MOST_LINKS = 40;

/**
 * The path with symbolic links resolved. SQLite puts -wal and -shm next to the real file, and every name of a store
 * must lead to the same ones. A dangling link resolves to where its file would be created.
 */
export function realPathOf(path: string, what = "store"): string {
  let at = resolve(path);
  for (let links = 0; links < MOST_LINKS; links++) {
    const folder = realFolderOf(dirname(at));
    if (folder === undefined) return at;
    at = join(folder, basename(at));
    if (!isLink(at, folder)) return at;
    at = resolve(folder, readlinkSync(at));
  }
  throw invalid(`${path} is a symbolic link that leads to itself. Name another file for the ${what}.`);
}

function isLink(path: string, folder: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
  } catch (error) {
    throw closed(folder, error);
  }
}

/** Undefined if there is no such folder: the later write reports that. */
function realFolderOf(folder: string): string | undefined {
  try {
    return realpathSync(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ELOOP") throw invalid(`${folder} is a symbolic link that leads to itself.`);
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw closed(folder, error);
  }
}

function closed(folder: string, error: unknown): unknown {
  const code = codeOf(error);
  if (code !== "EACCES" && code !== "EPERM") return error;
  return invalid(
    `This user may not open the folder ${folder} (${code}). Name another file, or let this user in: chmod or chown.`,
  );
}

/** A device is not a store. A file with two names would have two -wal files, and would lose data or be damaged. */
export function checkRegular(path: string, found: Stats, what = "store"): void {
  if (found.isDirectory()) throw invalid(`${path} is a folder. Name a file in it, as in ${path}/dibs.db.`);
  if (!found.isFile())
    throw invalid(`${path} is not a regular file. It was left as it is; name another file for the ${what}.`);
  if (found.nlink > 1)
    throw invalid(
      `${path} has ${found.nlink} names (hard links), and the file of a ${what} must have one: a process that uses another name ` +
        `would see, or damage, what is in it. Remove the other names, or copy the file.`,
    );
}
