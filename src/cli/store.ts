import { existsSync } from "node:fs";
import type { Command } from "commander";
import type { Dibs } from "../api/dibs.ts";
import { open } from "../api/open.ts";
import { kindOf, showAddress } from "../core/address.ts";
import { invalid } from "../core/errors.ts";
import { escapeControls } from "../core/show.ts";
import { filePathOf } from "../engine/real-file.ts";

export interface StoreFlags {
  url?: string;
  json?: boolean;
}

/** The flags of every command that uses a store. A token is not a flag: every user of the machine can read flags. */
export function withStore(command: Command): Command {
  return command
    .option("--url <url>", "the store or server: a file, postgres://… or http://… (DIBS_URL, or ./dibs.db)")
    .option("--json", "print for programs");
}

/** The store or server that a command is about. */
export function addressOf(url: string | undefined): string {
  return url ?? (process.env["DIBS_URL"] || "./dibs.db");
}

/** Opens the store while `work` runs. */
export async function useStore<T>(flags: StoreFlags, work: (dibs: Dibs) => Promise<T>): Promise<T> {
  const dibs = await open(addressOf(flags.url));
  try {
    return await work(dibs);
  } finally {
    await dibs.close();
  }
}

/** A command that only reads must not create a store: a missing one is probably a typo. */
export function checkStore(flags: StoreFlags): void {
  const url = addressOf(flags.url);
  if (kindOf(url) !== "file" || existsSync(filePathOf(url))) return;
  throw invalid(`There is no store ${showAddress(url)}. Name one with --url or DIBS_URL; an add creates it.`);
}

/** The output may come from a hostile server: the terminal must show control characters, not execute them. */
export function print(line: string): void {
  process.stdout.write(`${escapeControls(line)}\n`);
}

/** Columns for people. Numbers are right-aligned. */
export function printTable(head: string[], rows: (string | number)[][]): void {
  const all = [head, ...rows.map((row) => row.map((cell) => escapeControls(String(cell))))];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column]!.length)));
  const isNumber = head.map((_, column) => typeof rows[0]?.[column] === "number");
  for (const row of all) {
    const cells = row.map((cell, column) =>
      isNumber[column] ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!),
    );
    print(cells.join("  ").trimEnd());
  }
}
