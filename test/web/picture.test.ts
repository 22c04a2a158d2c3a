import type { Page } from "playwright-core";
import { once } from "node:events";
import { describe, expect, test } from "vitest";
import { open } from "../../src/index.ts";
import { makeFolder, serve, start } from "../cli/run-dibs.ts";
import { whyNoChromium } from "./chromium.ts";
import { expectCalm, shows, useBrowser, visit } from "./kit.ts";

const why = await whyNoChromium();

/** What the picture says in words about a worker. */
function said(page: Page, text: string | RegExp) {
  return page.locator(".picture li", { hasText: text }).waitFor({ state: "attached" });
}

describe.skipIf(why !== undefined)(`the live picture${why === undefined ? "" : `: ${why}`}`, () => {
  useBrowser();

  test("the task of a worker that is killed moves to another one", async () => {
    const folder = makeFolder();
    const { url } = await serve(folder);
    const workers = new Map(
      ["first", "second"].map((name) => [
        name,
        start(folder, ["work", "jobs", "--name", name, "--url", url, "--", "sleep", "300"]),
      ]),
    );
    const dibs = await open(url);
    const task = await dibs.queue("jobs").add(1);
    const opened = await visit(`${url}/queues/jobs`);
    const { page } = opened;
    await said(page, `runs ${task.id}, attempt 1`);
    const holder = (await task.info()).worker!.split("#")[0]!;
    const other = holder === "first" ? "second" : "first";
    workers.get(holder)!.kill("SIGKILL");
    await said(page, `${holder} is lost`);
    await said(page, new RegExp(`${other} is busy, runs ${task.id}`));
    expectCalm(opened);
    await dibs.close();
  });

  test("the page says that the connection is lost, and goes on when the server is back", async () => {
    const folder = makeFolder();
    const { child, url } = await serve(folder);
    const { port } = new URL(url);
    const dibs = await open(url);
    await dibs.queue("jobs").addMany([1, 2, 3].map((data) => ({ data })));
    await dibs.close();
    const { page } = await visit(`${url}/queues/jobs`);
    await shows(page, ".depth", "3");
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await ended;
    await shows(page, ".banner", "connection to the server is lost");
    const again = start(folder, ["serve", "--port", port]);
    await page.locator(".banner").waitFor({ state: "detached" });
    const after = await open(url);
    await after.queue("jobs").add(4);
    await after.close();
    await shows(page, ".depth", "4");
    again.kill("SIGTERM");
    expect(page.url()).toBe(`${url}/queues/jobs`);
  });
});
