import { once } from "node:events";
import { createInterface } from "node:readline";
import { AxeBuilder } from "@axe-core/playwright";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { spawn } from "node:child_process";
import { bareEnvironment } from "../run/compile-cache.ts";
import { MAIN } from "../cli/run-dibs.ts";
import { whyNoChromium } from "./chromium.ts";
import { expectCalm, shows, useBrowser, visit } from "./kit.ts";

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
        const { violations } = await new AxeBuilder({ page }).analyze();
        const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
        expect(serious.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)).toEqual([]);
        expectCalm(opened);
      },
    );

    test("a page is reached by the keyboard alone", async () => {
      const opened = await visit(url);
      const { page } = opened;
      await shows(page, ".table-row", /emails/);
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox").fill("webho");
      await page.keyboard.press("Enter");
      await shows(page, "h1", "webhooks");
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
