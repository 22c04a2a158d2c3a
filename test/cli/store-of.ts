// The three kinds of store that every verb must work on, as `--url` names them.

import { join } from "node:path";
import { onTestFinished } from "vitest";
import { type Dibs, open } from "../../src/index.ts";
import { freshSchema } from "../postgres/shared.ts";
import { makeFolder, serve } from "./run-dibs.ts";

export type Kind = "file" | "postgres" | "server";
export const KINDS: readonly Kind[] = ["file", "postgres", "server"];

export interface TestStore {
  folder: string;
  /** The flags that select it. */
  flags: string[];
  /** The same store, opened by the test. */
  dibs: Dibs;
}

export async function storeOf(kind: Kind): Promise<TestStore> {
  const folder = makeFolder();
  if (kind === "postgres") {
    const { url, schema } = await freshSchema(onTestFinished);
    const dibs = await open(url, { schema });
    onTestFinished(() => dibs.close());
    return { folder, flags: ["--url", url, "--schema", schema], dibs };
  }
  const url = kind === "file" ? join(folder, "dibs.db") : (await serve(folder)).url;
  const dibs = await open(url);
  onTestFinished(() => dibs.close());
  return { folder, flags: ["--url", url], dibs };
}
