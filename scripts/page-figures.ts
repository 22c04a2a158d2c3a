// npm run page-figures: how soon the page paints and how many frames it draws, in a real Chromium. First on a small
// store, then with 2,000 queues and a million tasks, then with 5,000 tasks/s added and handled by another process.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { open } from "../src/index.ts";
import { launch, whyNoChromium } from "../test/web/chromium.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SIZE = Number(process.env["SHARE"] ?? 1);
const QUEUES = Math.ceil(2_000 * SIZE);
const TASKS = 1_000_000 * SIZE;
const BATCH = 5_000;
const RATE = 5_000;
const LOADS = 7;
const FRAMES_MS = 10_000;
const BUSY = "busy";

async function measure(): Promise<void> {
  const why = await whyNoChromium();
  if (why !== undefined) throw new Error(why);
  const folder = mkdtempSync(join(tmpdir(), "dibs-page-"));
  const server = run([
    "src/cli/main.ts",
    "serve",
    "--url",
    join(folder, "work.db"),
    "--port",
    "0",
    "--log-level",
    "silent",
  ]);
  const browser = await launch();
  try {
    const [line] = (await once(createInterface({ input: server.stdout! }), "line")) as [string];
    const url = /http:\S+/.exec(line)![0].replace(/\/$/, "");
    await using dibs = await open(url);
    await dibs.queue(BUSY).add({});
    await paint(browser, url, "one queue");
    const handles = Array.from({ length: QUEUES }, (_, at) => dibs.queue(`quiet-${at}`));
    for (let first = 0, at = 0; first < TASKS; first += BATCH, at++)
      await handles[at % QUEUES]!.addMany(Array.from({ length: BATCH }, (_, n) => ({ data: { n } })));
    await Promise.all(handles.map((queue) => queue.addMany([{ data: 1 }, { data: 2 }])));
    await paint(browser, url, `${QUEUES} queues, ${TASKS} tasks`);
    const traffic = run(["scripts/page-figures.ts", "traffic", url]);
    try {
      await once(createInterface({ input: traffic.stdout! }), "line");
      await sleep(2_000);
      await frames(browser, `${url}/queues/${BUSY}`, dibs, "the picture");
      await frames(browser, url, dibs, "the overview");
    } finally {
      await end(traffic);
    }
  } finally {
    await browser.close();
    await end(server);
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

function run(args: string[]): ChildProcess {
  return spawn(process.execPath, args, { cwd: ROOT, stdio: ["ignore", "pipe", "inherit"] });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  await ended;
}

/** A fresh profile for each load: nothing is cached. The first load is not counted, because it builds the page. */
async function paint(browser: Browser, url: string, what: string): Promise<void> {
  const paints: number[] = [];
  const rows: number[] = [];
  for (let load = 0; load <= LOADS; load++) {
    const context = await browser.newContext({ viewport: { width: 1360, height: 900 } });
    const page = await context.newPage();
    await page.goto(url);
    await page.locator(".table-row").first().waitFor();
    const row = (await page.evaluate("performance.now()")) as number;
    const first = (await page.evaluate(
      `performance.getEntriesByName("first-contentful-paint")[0]?.startTime`,
    )) as number;
    await context.close();
    if (load === 0) continue;
    paints.push(first);
    rows.push(row);
  }
  say(`${what}: first paint ${shown(paints)} ms; first row of the list ${shown(rows)} ms`);
}

async function frames(
  browser: Browser,
  url: string,
  dibs: Awaited<ReturnType<typeof open>>,
  what: string,
): Promise<void> {
  const context = await browser.newContext({ viewport: { width: 1360, height: 900 } });
  const page: Page = await context.newPage();
  await page.goto(url);
  await page.locator(".gauge, .table-row").first().waitFor();
  await sleep(2_000);
  const doneBefore = await doneInWindow(dibs);
  const counted = (await page.evaluate(COUNT_FRAMES)) as { frames: number; ms: number; longest: number };
  // The traffic is younger than the window of the rates, so that nothing has left it.
  const done = ((await doneInWindow(dibs)) - doneBefore) / (counted.ms / 1_000);
  say(
    `${what}: ${((counted.frames * 1_000) / counted.ms).toFixed(1)} frames/s, longest gap ${Math.round(counted.longest)} ms, ` +
      `about ${Math.round(done)} tasks/s done meanwhile`,
  );
  await context.close();
}

async function doneInWindow(dibs: Awaited<ReturnType<typeof open>>): Promise<number> {
  const { donePerSecond, windowMs } = (await dibs.queue(BUSY).stats()).rates;
  return (donePerSecond * windowMs) / 1_000;
}

const COUNT_FRAMES = `new Promise((resolve) => {
  const started = performance.now();
  let frames = 0, last = started, longest = 0;
  const next = (now) => {
    longest = Math.max(longest, now - last);
    last = now;
    if (now - started >= ${FRAMES_MS}) resolve({ frames, ms: now - started, longest });
    else { frames++; requestAnimationFrame(next); }
  };
  requestAnimationFrame(next);
})`;

/** In a process of its own: adds and handles tasks of the busy queue until it is ended. */
async function makeTraffic(url: string): Promise<void> {
  const dibs = await open(url);
  const queue = dibs.queue(BUSY);
  queue.work(() => {}, { concurrency: 100, prefetch: 800 });
  console.log("ready");
  const started = performance.now();
  for (let added = 0; ; await sleep(5)) {
    const due = Math.floor(((performance.now() - started) * RATE) / 1_000);
    if (due > added) await queue.addMany(Array.from({ length: due - added }, (_, n) => ({ data: { n } })));
    added = Math.max(added, due);
  }
}

function shown(values: number[]): string {
  const sorted = values.toSorted((a, b) => a - b);
  const [least, most] = [sorted[0]!, sorted.at(-1)!];
  return `${Math.round(sorted[Math.floor(sorted.length / 2)]!)} (${Math.round(least)} to ${Math.round(most)})`;
}

function say(text: string): void {
  console.log(text);
}

if (process.argv[2] === "traffic") await makeTraffic(process.argv[3]!);
else await measure();
