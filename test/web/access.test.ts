import { createServer } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { describe, expect, onTestFinished, test } from "vitest";
import { open } from "../../src/index.ts";
import { dashboard } from "../../src/server/mount-dashboard.ts";
import { makeTokens } from "../dashboard/kit.ts";
import { whyNoChromium } from "./chromium.ts";
import { expectAccessible, expectCalm, servePage, shows, useBrowser, visit } from "./kit.ts";

const why = await whyNoChromium();

describe.skipIf(why !== undefined)(`who may see the page${why === undefined ? "" : `: ${why}`}`, () => {
  useBrowser();

  test("a wrong token is refused in words, the right one opens the page, and no cookie is set", async () => {
    const { tokens, access } = makeTokens();
    const { token } = tokens.add("ada", ["admin:*"]);
    const { dibs, url } = await servePage({ access }, token);
    await dibs.queue("mails").add(1);
    const opened = await visit(url);
    const { page } = opened;
    await page.getByLabel("Token").fill("guessed");
    await expectAccessible(page);
    await page.getByRole("button", { name: "Sign in" }).click();
    await shows(page, "[role=alert]", "does not know this token");
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await shows(page, ".table-row", "mails");
    expect(await page.context().cookies()).toEqual([]);
    await page.reload();
    await shows(page, ".table-row", "mails");
    expectCalm(opened);
  });

  test("a read-only token sees everything and no action", async () => {
    const { tokens, access } = makeTokens();
    const admin = tokens.add("ada", ["admin:*"]).token;
    const reader = tokens.add("board", ["read:*"]).token;
    const { dibs, url } = await servePage({ access }, admin);
    const task = await dibs.queue("mails").add(1);
    const opened = await visit(url);
    const { page } = opened;
    await page.getByLabel("Token").fill(reader);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("link", { name: "mails" }).click();
    await shows(page, ".gauge", "depth");
    for (const action of ["Pause", "Purge"])
      expect(await page.getByRole("button", { name: action }).count()).toBe(0);
    await page.getByRole("button", { name: "Policy" }).click();
    expect(await page.getByLabel("Lease").getAttribute("readonly")).not.toBeNull();
    expect(await page.getByRole("button", { name: /^Make/ }).count()).toBe(0);
    await page.keyboard.press("Escape");
    await page.goto(`${url}/tasks/${task.id}`);
    await shows(page, "h2", "Timeline");
    for (const action of ["Cancel task", "Edit and add again"])
      expect(await page.getByRole("button", { name: action }).count()).toBe(0);
    expectCalm(opened);
  });

  test("a token that is revoked while the page is open leads to the sign-in", async () => {
    const { tokens, access } = makeTokens();
    const admin = tokens.add("ada", ["admin:*"]).token;
    const { token, record } = tokens.add("guest", ["read:*"]);
    const { dibs, url } = await servePage({ access }, admin);
    await dibs.queue("mails").add(1);
    const { page } = await visit(url);
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await shows(page, ".table-row", "mails");
    tokens.revoke(record.id);
    await page.getByLabel("Token").waitFor();
    expect(await page.locator(".table-row").count()).toBe(0);
  });

  test("the page works under a prefix of another app", async () => {
    const dibs = await open(":memory:");
    const handler = dashboard(dibs, { authorize: () => true, prefix: "/admin/queues" });
    const listen = getRequestListener(handler);
    const app = createServer((request, response) => {
      if (request.url!.startsWith("/admin/queues")) return void listen(request, response);
      response.writeHead(404).end("another app");
    });
    await new Promise<void>((resolve) => app.listen(0, "127.0.0.1", resolve));
    onTestFinished(async () => {
      await handler.close();
      app.closeAllConnections();
      await new Promise((resolve) => app.close(resolve));
      await dibs.close();
    });
    const task = await dibs.queue("mails").add({ to: "ada" });
    const url = `http://127.0.0.1:${(app.address() as { port: number }).port}/admin/queues/`;
    const opened = await visit(url);
    const { page } = opened;
    await page.getByRole("link", { name: "mails" }).click();
    await shows(page, ".gauge", "depth");
    expect(page.url()).toBe(`${url}queues/mails`);
    await page.reload();
    await shows(page, ".gauge", "depth");
    await page.goto(`${url}tasks/${task.id}`);
    await shows(page, "pre", "ada");
    expectCalm(opened);
  });
});
