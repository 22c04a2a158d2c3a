import { once } from "node:events";
import * as fs from "node:fs";
import { MessageChannel, type MessagePort } from "node:worker_threads";
import Database from "better-sqlite3";
import { expect, onTestFinished, test, vi } from "vitest";
import type { Op, Verbs } from "../../../src/engine/engine.ts";
import type { Answer, Report, Request } from "../../../src/engines/sqlite/thread/messages.ts";
import * as pack from "../../../src/engines/sqlite/thread/pack.ts";
import { serve } from "../../../src/engines/sqlite/thread/thread.ts";
import { ask, newTask, now, openStore, QUEUE, tempPath, worker } from "./kit.ts";

vi.mock("node:fs", async (original) => {
  const actual = await original<typeof fs>();
  return { ...actual, fdatasyncSync: vi.fn(actual.fdatasyncSync) };
});
vi.mock("../../../src/engines/sqlite/thread/pack.ts", async (original) => {
  const actual = await original<typeof pack>();
  return { ...actual, packOutcomes: vi.fn(actual.packOutcomes) };
});

/** Executes the thread's work in this thread, where the test can make its parts fail. */
async function start(path: string): Promise<MessagePort> {
  const { port1, port2 } = new MessageChannel();
  serve(port2, { path, durability: "full", role: "writer", reading: null });
  expect(await next(port1)).toEqual({ opened: true });
  onTestFinished(async () => {
    port1.postMessage({ close: true } satisfies Request);
    await once(port1, "close");
  });
  return port1;
}

async function next(port: MessagePort): Promise<Report> {
  const [report] = (await once(port, "message")) as [Report];
  return report;
}

/** The first report that is wanted. */
async function until(port: MessagePort, isWanted: (report: Report) => boolean): Promise<Report> {
  for (;;) {
    const report = await next(port);
    if (isWanted(report)) return report;
  }
}

async function answersOf(port: MessagePort): Promise<pack.PackedOutcomes> {
  const report = await until(port, (each) => "answers" in each && each.answers.length > 0);
  return (report as { answers: Answer[] }).answers[0]!.outcomes!;
}

function sessionFrom(packed: pack.PackedOutcomes[number]): number {
  return (packed as { outcome: { ok: Verbs["join"]["out"] } }).outcome.ok.session;
}

function run(port: MessagePort, id: number, op: Op): void {
  port.postMessage({ id, ops: pack.packOps([op]), reading: null, sentAt: null } satisfies Request);
}

function add(port: MessagePort, id: number): void {
  run(port, id, { verb: "add", tasks: [newTask()] });
}

/** Keeps the journal from starting over, for as long as the test lasts. */
function keepJournal(path: string): void {
  const reader = new Database(path, { readonly: true });
  onTestFinished(() => void reader.close());
  reader.exec("BEGIN");
  reader.prepare("SELECT count(*) FROM task").get();
}

function countTasks(path: string): unknown {
  const db = new Database(path, { readonly: true });
  try {
    return db.prepare("SELECT count(*) FROM task").pluck().get();
  } finally {
    db.close();
  }
}

test("an exception after the commit is reported, and does not execute the batches again", async () => {
  const path = tempPath();
  const port = await start(path);
  vi.mocked(pack.packOutcomes).mockImplementationOnce(() => {
    throw new Error("a bug");
  });
  // Both are there when the first is looked at, and share a commit.
  add(port, 1);
  add(port, 2);
  const failure = expect.objectContaining({ code: null, message: "a bug" });
  expect(await next(port)).toEqual({
    answers: [
      { id: 1, failure },
      { id: 2, failure },
    ],
    hint: null,
  });
  expect(countTasks(path)).toBe(2);
});

test("a delay counts from its call, even if its batch is executed again", async () => {
  const path = tempPath();
  const port = await start(path);
  const sentAt = now().awake - 400;
  const mistake = [{ op: { verb: "unheard of" } }] as unknown as pack.PackedOps;
  const ops = pack.packOps([{ verb: "add", tasks: [newTask({ delay: 60_000 })] }]);
  // The failure happens after the delay was computed.
  port.postMessage({ id: 2, ops, reading: null, sentAt } satisfies Request);
  port.postMessage({ id: 1, ops: mistake, reading: null, sentAt: null } satisfies Request);
  await until(port, (report) => "answers" in report && report.answers.some(({ id }) => id === 1));
  const { tasks } = ask(openStore(path), { verb: "list", queue: QUEUE, state: "scheduled", limit: 1 });
  const delay = tasks[0]!.dueAt! - tasks[0]!.createdAt;
  expect(delay).toBeLessThanOrEqual(59_600);
  // The time that the batch took to arrive counts once.
  expect(delay).toBeGreaterThan(60_000 - 2 * 400);
});

test("the results of a heartbeat are reported, even if its commit may not survive", async () => {
  const path = tempPath();
  const port = await start(path);
  run(port, 1, { verb: "join", worker: worker("w"), lease: 30_000 });
  const [joined] = await answersOf(port);
  const session = sessionFrom(joined!);
  const other = openStore(path);
  const { id } = ask(other, { verb: "add", tasks: [newTask()] })[0]!;
  run(port, 2, { verb: "claim", queues: [QUEUE], max: 1, worker: "w", session });
  await answersOf(port);
  keepJournal(path);
  vi.mocked(fs.fdatasyncSync).mockImplementationOnce(() => {
    throw new Error("EIO");
  });
  ask(other, { verb: "cancel", id });
  const hints = await until(port, (report) => "hint" in report && report.hint?.notices !== undefined);
  expect(hints).toMatchObject({ hint: { notices: [{ session, kind: "cancel", id }] } });
});

test("after a commit that may not survive, other callers are hinted to read again", async () => {
  const path = tempPath();
  const port = await start(path);
  keepJournal(path);
  vi.mocked(fs.fdatasyncSync).mockImplementationOnce(() => {
    throw new Error("EIO");
  });
  add(port, 1);
  expect(await next(port)).toEqual({
    answers: [{ id: 1, failure: expect.objectContaining({ code: "OUTCOME_UNKNOWN" }) }],
    hint: { foreign: true },
  });
  expect(countTasks(path)).toBe(1);
});
