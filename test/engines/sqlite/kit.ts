import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { Reading } from "../../../src/core/time/clock.ts";
import type { ErrorCode } from "../../../src/core/errors/errors.ts";
import type { NewTask, WorkerInfo } from "../../../src/core/task/task.ts";
import type { Engine, Op, Outcome, VerbName, Verbs } from "../../../src/engine/engine.ts";
import type { Hint } from "../../../src/engine/hint.ts";
import { systemClock } from "../../../src/engine/system-clock.ts";
import { openSqlite, type SqliteOptions } from "../../../src/engines/sqlite/engine.ts";
import { SqliteStore } from "../../../src/engines/sqlite/batch/store.ts";

export const QUEUE = "q";

export function newTask(fields: Partial<NewTask> = {}): NewTask {
  return { queue: QUEUE, data: "{}", ...fields };
}

/** Removed when the test is over, after the stores in it were closed. */
export function tempFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "dibs-sqlite-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export function tempPath(): string {
  return join(tempFolder(), "work.db");
}

/** Closed when the test is over. */
export async function openEngine(options: Partial<SqliteOptions> = {}): Promise<Engine> {
  const engine = await openSqlite({ path: tempPath(), ...options });
  onTestFinished(() => engine.close());
  return engine;
}

export function openStore(path = tempPath()): SqliteStore {
  const store = new SqliteStore({ path, durability: "relaxed" }, now());
  onTestFinished(() => store.close());
  return store;
}

export function now(): Reading {
  return systemClock.read();
}

/** Executes one operation; throws if it is refused. */
export function ask<V extends VerbName>(store: SqliteStore, op: Op<V>): Verbs[V]["out"] {
  return accepted(store.execute([op], now()).outcomes[0]) as Verbs[V]["out"];
}

export async function call<V extends VerbName>(engine: Engine, op: Op<V>): Promise<Verbs[V]["out"]> {
  return accepted((await engine.execute([op]))[0]) as Verbs[V]["out"];
}

function accepted(outcome: Outcome): unknown {
  if ("refused" in outcome) throw Object.assign(new Error(outcome.refused.message), outcome.refused);
  return outcome.ok;
}

export function worker(id: string, queues = [QUEUE]): WorkerInfo {
  return { id, name: id, queues, concurrency: 1, host: "here", pid: process.pid };
}

/** Resolves with the first hint that is wanted. Takes the engine's one listener. */
export function nextHint(engine: Engine, wanted: (hint: Hint) => boolean): Promise<Hint> {
  return new Promise((resolve) => engine.onHint((hint) => wanted(hint) && resolve(hint)));
}

/** The code a call is refused with. */
export async function codeOf(call: () => unknown): Promise<ErrorCode | undefined> {
  try {
    await call();
    return undefined;
  } catch (error) {
    return (error as { code?: ErrorCode }).code;
  }
}
