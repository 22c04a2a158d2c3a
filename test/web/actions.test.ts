import { describe, expect, onTestFinished, test } from "vitest";
import { whyNoChromium } from "./chromium.ts";
import { expectAccessible, expectCalm, servePage, shows, useBrowser, visit } from "./kit.ts";

const why = await whyNoChromium();

describe.skipIf(why !== undefined)(`the page's actions${why === undefined ? "" : `: ${why}`}`, () => {
  useBrowser();

  test("a dead letter is fixed, redriven and seen to pass, and the rest after it", async () => {
    const { dibs, url } = await servePage();
    const queue = dibs.queue<number, string>("mails", { maxAttempts: 1 });
    let isFixed = false;
    const worker = queue.work(async () => {
      if (!isFixed) throw new Error("the mail server is down");
      return "sent";
    });
    onTestFinished(() => worker.stop());
    await queue.addMany([1, 2, 3, 4, 5].map((data) => ({ data })));
    await expect.poll(async () => (await queue.stats()).depth.dead).toBe(5);

    const opened = await visit(`${url}/dead`);
    const { page } = opened;
    await shows(page, ".inbox-item", "the mail server is down");
    isFixed = true;
    await page.getByRole("button", { name: "Redrive one" }).click();
    await shows(page, ".trial", "has passed");
    await page.getByRole("button", { name: "Redrive 4 tasks" }).click();
    const dialog = page.getByRole("dialog");
    expect(await dialog.locator(".copy code").textContent()).toBe(
      "dibs dead redrive mails --pattern 'Error: the mail server is down'",
    );
    await dialog.getByRole("button", { name: "Redrive 4 dead letters" }).click();
    await shows(page, ".job", "4 of 4 tasks");
    await shows(page, "h2", "No dead letters.");
    expect((await queue.stats()).depth).toMatchObject({ dead: 0, done: 5 });
    expectCalm(opened);
  });

  test("a bulk redrive is stopped halfway", async () => {
    const { dibs, url } = await servePage();
    const queue = dibs.queue("mails", { maxAttempts: 1 });
    await queue.addMany(Array.from({ length: 400 }, (_, data) => ({ data })));
    for (const claim of await queue.claim({ max: 400 })) await claim.reject(new Error("no"));
    const opened = await visit(`${url}/dead`);
    const { page } = opened;
    await page.getByRole("button", { name: "Redrive 400 tasks" }).click();
    await page.getByLabel(/so many per second/).fill("20");
    await page.getByRole("button", { name: "Redrive 400 dead letters" }).click();
    await shows(page, ".job", /Running: [1-9]\d* of 400 tasks/);
    await page.getByRole("button", { name: "Stop" }).click();
    await shows(page, ".job", /Stopped after [1-9]\d* of 400 tasks/);
    const { ready, dead } = (await queue.stats()).depth;
    expect(ready + dead).toBe(400);
    expect(dead).toBeGreaterThan(0);
    expect(ready).toBeGreaterThan(0);
    expectCalm(opened);
  });

  test("a policy is edited after the page said what each change does", async () => {
    const { dibs, url } = await servePage();
    const queue = dibs.queue("mails", { lease: "30s" });
    await queue.add(1);
    const opened = await visit(`${url}/queues/mails`);
    const { page } = opened;
    await page.getByRole("button", { name: "Policy" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Lease").fill("soon");
    await shows(page, "dialog [role=alert]", "is no duration");
    await dialog.getByLabel("Lease").fill("1m");
    await dialog.getByLabel("Rate limit").fill("100 per 1s");
    await shows(page, ".effects li", "lease");
    await shows(page, ".effects li", "rateLimit");
    expect(await dialog.locator(".copy code").textContent()).toBe(
      "dibs queue set mails lease=1m rateLimit=100/1s",
    );
    await dialog.getByRole("button", { name: "Make 2 changes" }).click();
    await dialog.waitFor({ state: "detached" });
    const [summary] = await dibs.queues();
    expect(summary!.policy).toMatchObject({ lease: 60_000, rateLimit: [{ max: 100, per: 1_000 }] });
    expectCalm(opened);
  });

  test("groups, hours, room and results of a policy are edited", async () => {
    const { dibs, url } = await servePage();
    const queue = dibs.queue("mails");
    await queue.add(1);
    const opened = await visit(`${url}/queues/mails`);
    const { page } = opened;
    await page.getByRole("button", { name: "Policy" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.locator("[name='groups.fair']").selectOption("yes");
    await dialog.locator("[name=window]").fill("22:00-06:00 Nowhere");
    await shows(page, "dialog [role=alert]", "time zone");
    await dialog.locator("[name=window]").fill("22:00-06:00 Europe/London");
    await dialog.locator("[name=overflow]").selectOption("drop-oldest");
    await dialog.locator("[name='retention.count']").fill("10");
    await dialog.locator("[name=maxAttempts]").fill("");
    for (const effect of [
      "Groups take turns",
      "Europe/London",
      "drops its oldest",
      "at most 10",
      "never dead",
    ])
      await shows(page, ".effects li", effect);
    await dialog.getByRole("button", { name: "Make 5 changes" }).click();
    await dialog.waitFor({ state: "detached" });
    const [summary] = await dibs.queues();
    expect(summary!.policy).toMatchObject({
      ...{ overflow: "drop-oldest", window: { hours: "22:00-06:00", tz: "Europe/London" } },
      ...{ groups: { fair: true }, retention: { count: 10 }, maxAttempts: 2 ** 31 - 1 },
    });
    expectCalm(opened);
  });

  test("a task shows what its attempts logged, and until when it sleeps", async () => {
    const { dibs, url } = await servePage();
    const queue = dibs.queue<number>("mails");
    const worker = queue.work(async (task) => {
      await task.log("looked at <b>the mail</b>");
      await task.sleep("1h");
    });
    onTestFinished(() => worker.stop());
    const { id } = await queue.add(1);
    const opened = await visit(`${url}/tasks/${id}`);
    const { page } = opened;
    await shows(page, ".log li", "looked at <b>the mail</b>");
    await shows(page, ".badge", "sleeping");
    await shows(page, ".timeline", /Sleeps until .* in \d+m/);
    await expectAccessible(page);
    await page.getByRole("button", { name: "Edit and add again" }).click();
    await page.getByRole("dialog").waitFor();
    await expectAccessible(page);
    expectCalm(opened);
  });

  test("a parent shows its children and waits for them, and a child shows its parent", async () => {
    const { dibs, url } = await servePage();
    const parts = dibs.queue<number>("parts");
    const sums = dibs.queue<number>("sums");
    const worker = sums.work(async (task) => {
      await task.spawn(parts, 1, { name: "first part" });
      await task.spawn(parts, 2);
      await task.waitForChildren();
    });
    onTestFinished(() => worker.stop());
    const { id } = await sums.add(1);
    const opened = await visit(`${url}/tasks/${id}`);
    const { page } = opened;
    await shows(page, ".timeline", /Waits for its children/);
    await shows(page, "section", /Children.*first part.*in parts.*Child 2/s);
    await expectAccessible(page);
    expect(await page.getByRole("button", { name: "Send signal" }).count()).toBe(0);
    const [child] = (await dibs.task(id).children()).children;
    await page.goto(`${url}/tasks/${child!.id}`);
    await shows(page, "dl", /Parent.*in sums/s);
    expectCalm(opened);
  });

  test("dead letters by worker are titled by its name, and by error with the parts that vary", async () => {
    const { dibs, url } = await servePage();
    const queue = dibs.queue("mails", { maxAttempts: 1 });
    await queue.addMany([{ data: 1 }, { data: 2 }]);
    for (const claim of await queue.claim({ max: 2, worker: "mailer-1" }))
      await claim.reject(new Error(`timeout after ${1_000 + Number(claim.data)} ms`));
    const opened = await visit(`${url}/dead`);
    const { page } = opened;
    await shows(page, ".inbox-item", /Error: timeout after/);
    await page.locator(".inbox-item .varies").first().waitFor();
    await shows(page, ".sample", /timeout after 100\d ms/);
    await page.getByRole("button", { name: "By worker" }).click();
    await shows(page, ".inbox-item", "mailer-1");
    expectCalm(opened);
  });

  test("axe-core finds nothing serious in the dialogs of signals, schedules and bulk jobs", async () => {
    const { dibs, url } = await servePage();
    const worker = dibs.queue("mails").work((task) => task.waitFor("approval"));
    onTestFinished(() => worker.stop());
    const { id } = await dibs.queue("mails").add(1);
    await dibs.queue("letters", { maxAttempts: 1 }).add(1);
    for (const claim of await dibs.queue("letters").claim()) await claim.reject(new Error("no"));
    await dibs.schedule("nightly", { cron: "0 3 * * *" }, { queue: "mails", data: 1 }).ready;
    for (const [path, button] of [
      [`/tasks/${id}`, "Send signal"],
      ["/schedules", "Fire now"],
      ["/dead", "Discard 1 task"],
      ["/tasks?q=state:parked", "Cancel all that match"],
    ] as const) {
      const opened = await visit(url + path, { colorScheme: path === "/dead" ? "dark" : "light" });
      await opened.page.getByRole("button", { name: button }).click();
      await opened.page.getByRole("dialog").waitFor();
      await expectAccessible(opened.page);
      expectCalm(opened);
    }
  });

  test("an empty store shows the first page, and axe-core finds nothing serious in it", async () => {
    const { url } = await servePage();
    const opened = await visit(url);
    await shows(opened.page, ".first", /add/);
    await expectAccessible(opened.page);
    expectCalm(opened);
  });

  test("a queue is paused and purged, with the number of tasks on the button", async () => {
    const { dibs, url } = await servePage();
    const queue = dibs.queue("mails");
    await queue.addMany([1, 2, 3].map((data) => ({ data })));
    const opened = await visit(`${url}/queues/mails`);
    const { page } = opened;
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("button", { name: "Pause the queue" }).click();
    await page.getByRole("button", { name: "Resume" }).waitFor();
    await page.getByRole("button", { name: "Purge" }).click();
    await page.getByRole("button", { name: "Remove 3 tasks" }).click();
    await shows(page, ".toast", "3 tasks of mails were removed.");
    expect(await queue.stats()).toMatchObject({ paused: true, depth: { ready: 0 } });
    expectCalm(opened);
  });

  test("a task is edited and added again", async () => {
    const { dibs, url } = await servePage();
    const task = await dibs.queue("mails").add({ to: "ada" }, { headers: { type: "welcome" } });
    const opened = await visit(`${url}/tasks/${task.id}`);
    const { page } = opened;
    await page.getByRole("button", { name: "Edit and add again" }).click();
    await page.getByLabel("Payload, as JSON").fill('{"to":"grace"}');
    await page.getByRole("button", { name: "Add 1 task" }).click();
    await shows(page, "pre", '"grace"');
    const id = page.url().split("/").at(-1)!;
    expect(id).not.toBe(task.id);
    expect(await dibs.task(id).info()).toMatchObject({ data: { to: "grace" }, headers: { type: "welcome" } });
    expectCalm(opened);
  });

  test("a payload of script and odd Unicode stays inert", async () => {
    const { dibs, url } = await servePage();
    const odd = `<img src=x onerror="globalThis.hit=1"><script>globalThis.hit=1</script>\u202Egpj.exe\u0000\u{1F468}\u200D\u{1F469}`;
    const queue = dibs.queue("mails", { maxAttempts: 1 });
    const task = await queue.add(
      { note: odd },
      { headers: { note: "<b>bold</b>" }, groupKey: odd.slice(0, 60) },
    );
    const [claim] = await queue.claim();
    await claim!.reject(Object.assign(new Error(odd), { name: "<i>Error</i>" }));
    for (const path of [`/tasks/${task.id}`, "/dead", "/tasks?q=state:dead", "/queues/mails"]) {
      const opened = await visit(`${url}${path}`);
      await opened.page.getByText("<script>").or(opened.page.locator("canvas")).first().waitFor();
      expect(await opened.page.evaluate("globalThis.hit")).toBeUndefined();
      expect(await opened.page.locator("main :is(img, script, i i)").count()).toBe(0);
      expectCalm(opened);
    }
    const { page } = await visit(`${url}/tasks/${task.id}`);
    await shows(page, "pre mark", "\\u202E");
  });
});
