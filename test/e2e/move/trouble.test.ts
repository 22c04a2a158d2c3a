import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { describe, expect } from "vitest";
import { NO_DEPTH } from "../../../src/core/task.ts";
import type { Dibs } from "../../../src/index.ts";
import { PostgresServer, QUICK } from "../../postgres/server.ts";
import { Random } from "../../simulation/random.ts";
import type { Program } from "../harness/program.ts";
import { type Stage, test, until } from "../harness/stage.ts";
import { isDrained, type Job, Judge, POLICY, taskOf } from "./judge.ts";

const TROUBLES = 6;
const BACKLOG = 3_000;

/** Ends every connection to the server but this one. */
async function cutConnections(server: PostgresServer): Promise<void> {
  const client = new Client({ connectionString: server.url });
  await client.connect();
  await client.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()");
  await client.end();
}

/** As a crash: what was under way is gone, and some of it was committed without a word. */
async function crash(server: PostgresServer): Promise<void> {
  await server.stop("immediate");
  await server.restart();
}

/** While it moves, and not between two of its batches only. */
async function trouble(server: PostgresServer, mover: Program): Promise<void> {
  const random = new Random(1);
  let met = 0;
  for (let round = 0; round < TROUBLES && mover.isRunning; round++) {
    await mover.hearsTimes("batch", mover.all("batch").length + 1).catch(() => {});
    await sleep(random.between(0, 12));
    if (!mover.isRunning || mover.all("moved").length > 0) break;
    await (round % 2 === 0 ? crash(server) : cutConnections(server));
    met++;
  }
  expect(met).toBeGreaterThan(2);
}

async function workOff(dibs: Dibs, judge: Judge): Promise<void> {
  const worker = dibs.queue<Job>("work", POLICY).work(judge.handle, { concurrency: 10 });
  await worker.ready;
  await until("everything is done", () => isDrained(dibs));
  await worker.stop();
}

/** Until the store itself has given up, and its caller is told. */
async function outage(server: PostgresServer, mover: Program): Promise<void> {
  await mover.hears("batch");
  await server.stop("immediate");
  expect(await mover.hears("wait")).toMatchObject({ code: expect.stringMatching(/UNAVAILABLE|OUTCOME/) });
  await server.restart();
}

async function stageTrouble(
  stage: Stage,
  server: PostgresServer,
  [from, to]: [string, string],
  meet: typeof trouble,
): Promise<void> {
  stage.file = from;
  const here = await stage.open();
  await here
    .queue<Job>("work", POLICY)
    .addMany(Array.from({ length: BACKLOG }, (_, index) => taskOf(index + 1)));
  const mover = stage.start("mover.ts", { from, to });
  await meet(server, mover);
  // One mover, from beginning to end.
  expect(await mover.hears("moved")).toMatchObject({ left: 0 });
  expect((await here.queue("work").stats()).depth).toEqual(NO_DEPTH);
  stage.file = to;
  const there = await stage.open();
  const judge = new Judge();
  await workOff(there, judge);
  judge.judge(BACKLOG);
}

describe("a move while its PostgreSQL is in trouble goes on by itself, and doubles nothing", () => {
  test.for([
    ["from a file, over crashes and lost connections", false, trouble],
    ["to a file, over crashes and lost connections", true, trouble],
    ["from a file, over an outage that takes longer than a store waits", false, outage],
    ["to a file, over an outage that takes longer than a store waits", true, outage],
  ] as const)("%s", { timeout: 120_000 }, async ([, isBack, meet], { stage }) => {
    const server = await PostgresServer.start({ settings: QUICK });
    stage.onEnd(() => server.remove());
    await stageTrouble(stage, server, isBack ? [server.url, stage.file] : [stage.file, server.url], meet);
  });
});
