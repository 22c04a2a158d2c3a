// npm run screenshots: every page of the dashboard on the demo's traffic, light, dark and narrow, into docs/screenshots,
// and the live picture as an animation for the README. With names, only these: npm run screenshots -- overview live

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { launch, whyNoChromium } from "../test/web/chromium.ts";
import { animateWebp, type Frame } from "./animate-webp.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const FOLDER = join(ROOT, "docs/screenshots");
/** The charts need a few minutes of history to show a line. */
const WARM_UP_MS = Number(process.env["WARM_UP_SECONDS"] ?? 200) * 1_000;

const ANIMATION_MS = 7_000;
const FRAME_MS = 90;
/** The README shows it: a fast machine draws more frames than a reader should have to load. */
const MOST_ANIMATED = 1_000_000;

/** The name of each picture, its page, and what must be there before it is taken. */
const PAGES: [name: string, path: string, selector: string][] = [
  ["overview", "", ".table-row"],
  ["queue", "queues/emails", ".chart canvas"],
  ["tasks", "tasks?q=queue:emails", ".table-row"],
  ["workers", "workers", ".table-row"],
  ["dead-letters", "dead", ".inbox-detail .table-row"],
  ["topics", "topics", ".topic"],
  ["pipelines", "pipelines/report", ".table-row"],
  ["schedules", "schedules", ".times"],
  ["pools", "pools", ".decisions"],
  ["alerts", "alerts", ".rules"],
  ["audit", "audit", ".empty, .table-row"],
];

const LOOKS = {
  light: { colorScheme: "light", viewport: { width: 1360, height: 900 } },
  dark: { colorScheme: "dark", viewport: { width: 1360, height: 900 } },
  narrow: { colorScheme: "light", viewport: { width: 390, height: 844 } },
} as const;

const named = process.argv.slice(2);
const KNOWN = [...PAGES.map(([name]) => name), "task", "run", "first-page", "live"];
const unknown = named.find((name) => !KNOWN.includes(name));
if (unknown !== undefined) throw new Error(`There is no picture ${unknown}: ${KNOWN.join(", ")}.`);
const isWanted = (name: string): boolean => named.length === 0 || named.includes(name);

const why = await whyNoChromium();
if (why !== undefined) throw new Error(why);
if (named.length === 0) rmSync(FOLDER, { recursive: true, force: true });
mkdirSync(FOLDER, { recursive: true });
const demo = spawn(process.execPath, [
  join(ROOT, "src/cli/main.ts"),
  "demo",
  "--port",
  "0",
  "--rate",
  "30",
  "--workers",
  "3",
]);
const ended = once(demo, "exit");
const browser = await launch();
try {
  const [line] = (await once(createInterface({ input: demo.stdout }), "line")) as [string];
  const url = `${/http:\S+/.exec(line)![0]}/`;
  if (isWanted("first-page")) await takeFirstPage(browser);
  console.log(`The demo runs for ${WARM_UP_MS / 1_000} s first, so that the charts show something.`);
  await sleep(WARM_UP_MS);
  for (const look of Object.keys(LOOKS) as (keyof typeof LOOKS)[]) await takePages(browser, url, look);
  for (const look of isWanted("live") ? (["light", "dark"] as const) : [])
    await takeAnimation(browser, url, look);
} finally {
  await browser.close();
  demo.kill("SIGTERM");
  await ended;
}

async function takePages(of: Browser, url: string, look: keyof typeof LOOKS): Promise<void> {
  const context = await of.newContext(LOOKS[look]);
  const page = await context.newPage();
  for (const [name, path, selector] of [...PAGES, await oneTask(url), await oneRun(url)]) {
    if (!isWanted(name)) continue;
    await page.goto(url + path);
    await page.locator(selector).first().waitFor();
    // Sparklines, charts and the first moves of the picture.
    await sleep(2_000);
    save(`${name}-${look}`, await capture(page, 82, look === "narrow"));
  }
  await context.close();
}

/** The page of a dead letter, which has the most to show. */
async function oneTask(url: string): Promise<[string, string, string]> {
  const { tasks } = (await (await fetch(`${url}v1/search?q=state:dead&limit=1`)).json()) as {
    tasks: { id: string }[];
  };
  return ["task", `tasks/${tasks[0]?.id}`, ".timeline"];
}

/** The page of a run that has ended. */
async function oneRun(url: string): Promise<[string, string, string]> {
  const answer = await fetch(`${url}v1/pipelines/report/runs?state=done&limit=1`);
  const { runs } = (await answer.json()) as { runs: { id: string }[] };
  return ["run", `runs/${runs[0]?.id}`, ".gantt-row"];
}

/** A server with an empty store. */
async function takeFirstPage(of: Browser): Promise<void> {
  const server = spawn(process.execPath, [
    join(ROOT, "src/cli/main.ts"),
    "serve",
    "--url",
    ":memory:",
    "--port",
    "0",
  ]);
  const over = once(server, "exit");
  const [line] = (await once(createInterface({ input: server.stdout }), "line")) as [string];
  for (const look of Object.keys(LOOKS) as (keyof typeof LOOKS)[]) {
    const page = await of.newPage(LOOKS[look]);
    await page.goto(/http:\S+/.exec(line)![0]);
    await page.locator(".first").waitFor();
    save(`first-page-${look}`, await capture(page, 82, look === "narrow"));
    await page.close();
  }
  server.kill("SIGTERM");
  await over;
}

/** The live picture of the demo's busiest queue, frame by frame. */
async function takeAnimation(of: Browser, url: string, look: "light" | "dark"): Promise<void> {
  const page = await of.newPage({ ...LOOKS[look], viewport: { width: 1180, height: 800 } });
  await page.goto(`${url}queues/emails`);
  await page.locator(".gauge").waitFor();
  await sleep(3_000);
  const box = (await page.locator(".stage").boundingBox())!;
  const session = await page.context().newCDPSession(page);
  const frames: Frame[] = [];
  const started = Date.now();
  let last = started;
  while (last - started < ANIMATION_MS) {
    const clip = { ...box, scale: 1 };
    const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 62, clip });
    const rest = FRAME_MS - (Date.now() - last);
    if (rest > 0) await sleep(rest);
    frames.push({ image: Buffer.from(data, "base64"), milliseconds: Date.now() - last });
    last = Date.now();
  }
  save(`live-${look}`, animateWebp(frames, MOST_ANIMATED));
  await page.close();
}

async function capture(page: Page, quality: number, whole: boolean): Promise<Buffer> {
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", {
    ...{ format: "webp", quality, captureBeyondViewport: whole },
    ...(whole && {
      clip: { ...{ x: 0, y: 0, width: 390, scale: 1 }, height: await heightOf(page) },
    }),
  });
  await session.detach();
  return Buffer.from(data, "base64");
}

async function heightOf(page: Page): Promise<number> {
  return Math.min(2_000, Number(await page.evaluate("document.documentElement.scrollHeight")));
}

function save(name: string, image: Buffer): void {
  writeFileSync(join(FOLDER, `${name}.webp`), image);
  console.log(`docs/screenshots/${name}.webp, ${Math.round(image.length / 1_000)} kB`);
}
