// What the tests of the page share: a browser for each file, and pages that must stay free of errors.

import { AxeBuilder } from "@axe-core/playwright";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, expect, onTestFinished } from "vitest";
import { webLoader } from "../../src/server/web-folder.ts";
import { type Dibs, open } from "../../src/index.ts";
import type { ServerOptions } from "../../src/server/options.ts";
import { startDashboard } from "../dashboard/kit.ts";
import { launch } from "./chromium.ts";

let browser: Promise<Browser> | undefined;

/** Called once in each file of tests. */
export function useBrowser(): void {
  afterAll(async () => {
    await (await browser)?.close();
  });
}

/** How long a page may take on a busy machine. */
const PATIENCE_MS = 60_000;

export interface Opened {
  page: Page;
  /** Errors that the browser reported: of scripts, and of the content security policy. */
  problems: string[];
  /** Requests to another origin than the page's. */
  foreign: string[];
}

/** A page in a fresh profile. */
export async function visit(url: string, options: BrowserContextOptions = {}): Promise<Opened> {
  browser ??= launch();
  const context = await (await browser).newContext({ viewport: { width: 1360, height: 900 }, ...options });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const problems: string[] = [];
  const foreign: string[] = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => {
    // A refused request is shown by the page in words; the browser reports it as an error all the same.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      problems.push(message.text());
  });
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin) foreign.push(request.url());
  });
  await page.goto(url);
  return { page, problems, foreign };
}

/** A server with the page on a store in memory, and the store opened through it. */
export async function servePage(options: Partial<ServerOptions> = {}, token?: string) {
  const served = await startDashboard({ web: webLoader(), ...options });
  const dibs: Dibs = await open(served.url, token === undefined ? {} : { token });
  onTestFinished(() => dibs.close());
  return { ...served, dibs };
}

/** Polls until the text of an element matches. */
export async function shows(page: Page, selector: string, text: RegExp | string): Promise<void> {
  await page.locator(selector).filter({ hasText: text }).first().waitFor({ timeout: PATIENCE_MS });
}

/** axe-core finds nothing serious in the page as it is now, dialogs included. */
export async function expectAccessible(page: Page): Promise<void> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  expect(serious.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)).toEqual([]);
}

export function expectCalm({ problems, foreign }: Opened): void {
  expect(problems).toEqual([]);
  expect(foreign).toEqual([]);
}
