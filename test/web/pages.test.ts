import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { spawn } from "node:child_process";
import { bareEnvironment } from "../run/compile-cache.ts";
import { MAIN } from "../cli/run-dibs.ts";
import { whyNoChromium } from "./chromium.ts";
import { expectAccessible, expectCalm, shows, useBrowser, visit } from "./kit.ts";

const why = await whyNoChromium();

/** A page, and what of the demo's traffic it must show. */
const PAGES: [name: string, path: string, selector: string, text: RegExp][] = [
  ["overview", "/", ".table-row", /emails/],
  ["queue", "/queues/emails", ".gauge", /tasks\/s/],
  ["tasks", "/tasks?q=queue:emails", ".table-row", /\d+\/\d+/],
  ["workers", "/workers", ".table-row", /mailer-1/],
  ["dead letters", "/dead", ".inbox-item", /webhooks/],
  ["topics", "/topics", ".topic", /order/],
  ["pipelines", "/pipelines", ".stage-box", /outline/],
  ["pipeline", "/pipelines/report", ".table-row", /\w/],
  ["schedules", "/schedules", ".times", /in \d/],
  ["pools", "/pools", ".decisions", /Runs in/],
  ["alerts", "/alerts", ".rules", /dead letters/],
  ["audit", "/audit", ".empty, .table-row", /\w/],
];

/** In the browser: rows and items that are wider than their card. */
const CUT_OFF = `[...document.querySelectorAll(".table-row, .table-header, .inbox-item, .card > *")]
  .filter((element) => element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).overflowX === "visible")
  .map((element) => element.className + " " + element.scrollWidth)`;

describe.skipIf(why !== undefined)(
  `pages on the demo's traffic${why === undefined ? "" : `: ${why}`}`,
  () => {
    useBrowser();
    let url = "";
    let stop = async () => {};

    beforeAll(async () => {
      const child = spawn(process.execPath, [MAIN, "demo", "--port", "0"], { env: bareEnvironment() });
      const ended = once(child, "exit");
      stop = async () => {
        child.kill("SIGTERM");
        await ended;
      };
      const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
      url = /http:\S+/.exec(line)![0];
    });
    afterAll(() => stop());

    test.each(PAGES)(
      "%s shows the traffic, and axe-core finds nothing serious in it",
      async (_, path, selector, text) => {
        const opened = await visit(url + path, { colorScheme: path === "/dead" ? "dark" : "light" });
        const { page } = opened;
        await shows(page, selector, text);
        await expectAccessible(page);
        expectCalm(opened);
      },
    );

    test("the page of a task shows its timeline, and axe-core finds nothing serious in it", async () => {
      const opened = await visit(`${url}/tasks?q=state:dead`);
      const { page } = opened;
      await page.locator(".table-row a").first().click();
      await shows(page, ".timeline", /Attempt 1/);
      await expectAccessible(page);
      expectCalm(opened);
    });

    test("the page of a run shows its path, and axe-core finds nothing serious in it", async () => {
      const opened = await visit(`${url}/pipelines/report`);
      const { page } = opened;
      await page.locator(".table-row a").first().click();
      await shows(page, ".gantt-stage", /outline/);
      await page.locator(".gantt-row").first().waitFor();
      await expectAccessible(page);
      expectCalm(opened);
    });

    test.each(["Policy", "Purge", "Pause"])(
      "axe-core finds nothing serious in the dialog %s",
      async (name) => {
        const opened = await visit(`${url}/queues/emails`, { colorScheme: "dark" });
        const { page } = opened;
        await page.getByRole("button", { name, exact: true }).click();
        await page.getByRole("dialog").waitFor();
        await expectAccessible(page);
        expectCalm(opened);
      },
    );

    test("axe-core finds nothing serious in the palette", async () => {
      const { page } = await visit(url);
      await shows(page, ".table-row", /emails/);
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox").waitFor();
      await expectAccessible(page);
    });

    test("the slider and the buttons of the demo change its real processes", async () => {
      const opened = await visit(`${url}/queues/emails`);
      const { page } = opened;
      const demo = async () =>
        (await (await fetch(`${url}/v1/demo`)).json()) as { rate: number; workers: number };
      const mailers = async () => {
        const { workers } = (await (await fetch(`${url}/v1/workers?queue=emails`)).json()) as {
          workers: { pid: number }[];
        };
        return new Set(workers.map(({ pid }) => pid)).size;
      };
      const before = await demo();
      await expect.poll(mailers, { timeout: 60_000 }).toBe(before.workers);
      await page.getByRole("button", { name: "One worker more" }).click();
      await expect.poll(mailers, { timeout: 60_000 }).toBe(before.workers + 1);
      await page.getByRole("button", { name: "One worker less" }).click();
      await expect.poll(mailers, { timeout: 60_000 }).toBe(before.workers);
      const slider = page.getByRole("slider");
      await slider.focus();
      await page.keyboard.press("Home");
      await shows(page, ".demo-controls", "1.0 /s");
      await expect.poll(async () => (await demo()).rate).toBeLessThanOrEqual(1);
      // The picture's own figure follows, so the producers have really slowed down.
      const arrival = async () =>
        Number((await page.locator(".gauge").textContent())!.split("of ")[1]!.split(" ")[0]);
      await expect.poll(arrival, { timeout: 60_000 }).toBeLessThan(before.rate / 2);
      expectCalm(opened);
    });

    test("a page is reached by the keyboard alone", async () => {
      const opened = await visit(url);
      const { page } = opened;
      await shows(page, ".table-row", /emails/);
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox").fill("webho");
      await page.keyboard.press("Enter");
      await shows(page, "h1", "webhooks");
      await page.goto(url);
      await shows(page, ".table-row", /chores/);
      const chosen = () => page.evaluate("document.activeElement.textContent");
      await page.keyboard.press("j");
      const first = await chosen();
      await page.keyboard.press("ArrowDown");
      const second = await chosen();
      expect([first, second]).toEqual(["chores", "completions"]);
      await page.keyboard.press("k");
      expect(await chosen()).toBe("chores");
      await page.keyboard.press("Enter");
      await shows(page, "h1", "chores");
      expectCalm(opened);
    });

    test("counts stand in for the picture where motion is not wanted", async () => {
      const { page } = await visit(`${url}/queues/emails`, { reducedMotion: "reduce" });
      await shows(page, ".counts", "arrive per second");
      expect(await page.locator("canvas[role=img]").count()).toBe(0);
    });

    test("no page is wider than a narrow screen", async () => {
      const { page } = await visit(url, { viewport: { width: 390, height: 844 } });
      for (const [, path, selector] of PAGES) {
        await page.goto(url + path);
        await page.locator(selector).first().waitFor();
        expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(390);
        // A card hides what does not fit, so rows and items are asked one by one.
        expect({ path, cutOff: await page.evaluate(CUT_OFF) }).toEqual({ path, cutOff: [] });
      }
    });
  },
);
