import { expect, onTestFinished, test } from "vitest";
import { open } from "../../src/index.ts";
import { dashboard, type DashboardOptions } from "../../src/server/mount-dashboard.ts";
import { WebFiles } from "../../src/server/web-files.ts";
import { startDashboard } from "./kit.ts";

const PAGE = `<!doctype html><base href="/"><script src="assets/app-1.js"></script>`;
const FILES = new WebFiles(
  new Map([
    ["index.html", Buffer.from(PAGE)],
    ["assets/app-1.js", Buffer.from("code")],
    ["assets/app-1.js.br", Buffer.from("brotli")],
    ["icon.svg", Buffer.from("<svg/>")],
  ]),
);

async function mount(options: Partial<DashboardOptions> = {}) {
  const dibs = await open(":memory:");
  const handler = dashboard(dibs, { authorize: () => true, prefix: "/admin/queues", ...options });
  onTestFinished(async () => {
    await handler.close();
    await dibs.close();
  });
  const call = (path: string, init?: RequestInit) => handler(new Request(`http://app.example${path}`, init));
  return { dibs, handler, call };
}

test("a server shows the page at / and at the page's own paths, with strict headers", async () => {
  const { url } = await startDashboard({ web: async () => FILES });
  for (const path of ["/", "/queues/emails"]) {
    const response = await fetch(`${url}${path}`, { headers: { accept: "text/html" } });
    expect(response.status).toBe(200);
    expect(await response.text()).toBe(PAGE);
    const policy = response.headers.get("content-security-policy")!;
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self';");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toContain("unsafe");
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    expect(response.headers.get("cache-control")).toBe("no-cache");
    expect(response.headers.get("set-cookie")).toBeNull();
  }
});

test("hashed assets are cached for good and sent compressed; what is not there is 404", async () => {
  const { url } = await startDashboard({ web: async () => FILES });
  const asset = await fetch(`${url}/assets/app-1.js`, { headers: { "accept-encoding": "identity" } });
  expect(asset.headers.get("cache-control")).toContain("immutable");
  expect(asset.headers.get("content-type")).toBe("text/javascript; charset=utf-8");
  const request = new Request("http://x/assets/app-1.js", { headers: { "accept-encoding": "gzip, br" } });
  const packed = FILES.respond(request, "assets/app-1.js", "/")!;
  expect(packed.headers.get("content-encoding")).toBe("br");
  expect(await packed.text()).toBe("brotli");
  expect((await fetch(`${url}/icon.svg`)).headers.get("cache-control")).toBe("no-cache");
  expect((await fetch(`${url}/assets/none.js`)).status).toBe(404);
  expect((await fetch(`${url}/assets/..%2f..%2fpackage.json`)).status).toBe(404);
  expect((await fetch(`${url}/`, { method: "POST" })).status).toBe(404);
});

test("the interface of a server stays where it was", async () => {
  const { url } = await startDashboard({ web: async () => FILES });
  expect(
    (await fetch(`${url}/openapi.json`, { headers: { accept: "text/html" } })).headers.get("content-type"),
  ).toContain("json");
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  expect((await fetch(`${url}/v1/nothing`, { headers: { accept: "text/html" } })).status).toBe(404);
});

test("the interface works below a prefix", async () => {
  const { dibs, call } = await mount();
  await dibs.queue("emails").add({ to: "ada" });
  const me = await call("/admin/queues/v1/me");
  expect(await me.json()).toMatchObject({ signIn: false, name: null, scopes: ["admin:*"] });
  const paused = await call("/admin/queues/v1/queues/emails/pause", { method: "POST" });
  expect(paused.status).toBe(204);
  expect((await dibs.queue("emails").stats()).paused).toBe(true);
  const body = JSON.stringify({ data: 1 });
  const headers = { "content-type": "application/json", "content-length": `${body.length}` };
  const added = await call("/admin/queues/v1/queues/emails/tasks", { method: "POST", body, headers });
  expect(added.status).toBe(201);
  expect((await call("/elsewhere/v1/me")).status).toBe(404);
  expect((await call("/admin/queuesque/v1/me")).status).toBe(404);
  const moved = await call("/admin/queues?x=1");
  expect([moved.status, moved.headers.get("location")]).toEqual([308, "/admin/queues/?x=1"]);
});

test.each(['<base href="/">', '<base href="/" />'])("the page's base %s becomes the prefix", async (base) => {
  const files = new WebFiles(new Map([["index.html", Buffer.from(`<head>${base}</head>`)]]));
  const page = files.respond(new Request("http://x/a/b/"), "", "/a/b/")!;
  expect(await page.text()).toBe('<head><base href="/a/b/"></head>');
});

test("the live feed streams below a prefix, and ends with close()", async () => {
  const { dibs, call, handler } = await mount();
  await dibs.queue("emails").add(1);
  const response = await call("/admin/queues/v1/live?queues=true");
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  const { value } = await reader.read();
  expect(value).toContain('"type":"hello"');
  await handler.close();
  for (;;) if ((await reader.read()).done) break;
});

test("authorize decides who sees what", async () => {
  const { call, dibs } = await mount({
    authorize: (request) => {
      const name = request.headers.get("x-user");
      if (name === "reader") return { name, readOnly: true };
      return name === "shop" ? { name, scopes: ["admin:shop"] } : false;
    },
  });
  await dibs.queue("shop").add(1);
  await dibs.queue("secret").add(1);
  const as = (user: string, path: string, method = "GET") =>
    call(`/admin/queues/v1/${path}`, { method, headers: { "x-user": user } });
  expect((await call("/admin/queues/v1/me")).status).toBe(401);
  expect((await call("/admin/queues/")).status).toBe(401);
  expect(await (await as("reader", "me")).json()).toMatchObject({ name: "reader", scopes: ["read:*"] });
  expect((await as("reader", "queues/shop/pause", "POST")).status).toBe(403);
  expect((await as("shop", "queues/shop/pause", "POST")).status).toBe(204);
  expect((await as("shop", "queues/secret")).status).toBe(403);
});

test("a read-only handler refuses every change", async () => {
  const { call, dibs } = await mount({ readOnly: true });
  await dibs.queue("emails").add(1);
  expect((await call("/admin/queues/v1/queues/emails/purge", { method: "POST" })).status).toBe(403);
  expect((await call("/admin/queues/v1/queues/emails")).status).toBe(200);
});

test("a page of another origin cannot use the app's cookies", async () => {
  const { call, dibs } = await mount();
  await dibs.queue("emails").add(1);
  for (const headers of [{ "sec-fetch-site": "cross-site" }, { origin: "https://evil.example" }])
    expect((await call("/admin/queues/v1/queues/emails/purge", { method: "POST", headers })).status).toBe(
      403,
    );
  const own = { origin: "http://app.example", "sec-fetch-site": "same-origin" };
  expect((await call("/admin/queues/v1/me", { headers: own })).status).toBe(200);
});

test("contradictory options of the handler are refused", async () => {
  await using dibs = await open(":memory:");
  expect(() => dashboard(dibs, {} as never)).toThrow("authorize");
  expect(() => dashboard(dibs, { authorize: () => true, prefix: "admin" })).toThrow("prefix");
  expect(() => dashboard(dibs, { authorize: () => true, theme: "dark" } as never)).toThrow("theme");
});
