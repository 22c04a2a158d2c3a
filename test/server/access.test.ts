import { chownSync, existsSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { eachEvent } from "../each-event.ts";
import { openPort } from "../../src/api/open.ts";
import { Tokens } from "../../src/server/tokens.ts";
import { forbidden, makeTokens, setUp, task, claimCall } from "./guarded.ts";
import { startServer } from "./start.ts";

const refused = (call: Promise<unknown>, code: string): Promise<void> =>
  expect(call).rejects.toMatchObject({ code });

describe("a server without tokens", () => {
  test("a server without tokens accepts this machine, and requires a token as soon as there is one", async () => {
    const { open, tokens } = await setUp();
    const port = await open();
    await port.add([task("q")]);
    const { token } = tokens.add("first", ["read:*"]);
    await forbidden(open(), "DIBS_TOKEN");
    expect((await (await open(token)).queues()).items).toHaveLength(1);
    // Clients from before are disconnected, and refused when they reconnect.
    await expect
      .poll(
        () =>
          port.queues().then(
            () => "let in",
            (error: unknown) => (error as { code: string }).code,
          ),
        { timeout: 10_000 },
      )
      .toBe("FORBIDDEN");
  });

  test("a server without tokens does not listen on a public address, unless --let-anyone-in is set", async () => {
    const store = await openPort(":memory:", {});
    onTestFinished(() => store.close());
    await expect(startServer(store, { host: "0.0.0.0" })).rejects.toMatchObject({
      code: "INVALID",
      message: expect.stringMatching(/0\.0\.0\.0.*dibs tokens add.*--let-anyone-in/s),
    });
    const server = await startServer(store, { host: "0.0.0.0", letAnyoneIn: true });
    await server.close();
  });
});

describe("tokens", () => {
  test("a token is stored as a hash, in a file that only its owner may read, and shown once", () => {
    const tokens = makeTokens();
    const { token, record } = tokens.add("ada", ["work:emails", "add:*"]);
    const text = readFileSync(tokens.path, "utf8");
    expect(text).not.toContain(token.slice("dibs_000000000000_".length));
    expect(statSync(tokens.path).mode & 0o777).toBe(0o600);
    expect(new Tokens(tokens.path).list()).toEqual([record]);
    expect(tokens.check(token)?.owner).toBe(record.id);
  });

  test.each(["", "x", "dibs_000000000000_", "Bearer x"])("%j is not a valid token", (token) => {
    const tokens = makeTokens();
    tokens.add("ada", ["work:*"]);
    expect(tokens.check(token)).toBeUndefined();
  });

  test("a token with another secret is not valid", () => {
    const tokens = makeTokens();
    const { token } = tokens.add("ada", ["work:*"]);
    const last = token.at(-1) === "A" ? "B" : "A";
    expect(tokens.check(token.slice(0, -1) + last)).toBeUndefined();
  });

  test.each(["", "work", "work:", "steal:*", "work:a b", `work:${"a".repeat(129)}`])(
    "the scope %j is refused",
    (scope) => {
      expect(() => makeTokens().add("ada", [scope])).toThrow(expect.objectContaining({ code: "INVALID" }));
    },
  );

  test("a revoked token is refused, and its connections end", async () => {
    const { open, tokens } = await setUp();
    tokens.add("another", ["read:*"]);
    const { token, record } = tokens.add("ada", ["work:*"]);
    const port = await open(token);
    const waiting = port.claim({ ...claimCall("q"), wait: 60_000 });
    tokens.revoke(record.name);
    await forbidden(open(token), "revoked");
    await forbidden(waiting);
  });

  test("a token signs tickets that no other token can, and that survive a restart", () => {
    const tokens = makeTokens();
    const [ada, bob] = [tokens.add("ada", ["work:*"]), tokens.add("bob", ["work:*"])].map(
      ({ record }) => record.id,
    );
    const ticket = tokens.ticketOf(ada!, 7);
    expect(new Tokens(tokens.path).ticketOf(ada!, 7)).toBe(ticket);
    expect(new Set([ticket, tokens.ticketOf(bob!, 7), tokens.ticketOf(ada!, 8)]).size).toBe(3);
  });

  test("revoking the last token opens the server to no one", async () => {
    const { open, tokens } = await setUp();
    const { token, record } = tokens.add("last", ["admin:*"]);
    await (await open(token)).queues();
    tokens.revoke(record.name);
    await forbidden(open(token));
    await forbidden(open());
  });

  test("revoking a token ends its event streams over HTTP", async () => {
    const { tokens, server } = await setUp();
    tokens.add("another", ["read:*"]);
    const { token, record } = tokens.add("ada", ["read:*"]);
    const answer = await fetch(`${server.url}/v1/events`, { headers: { authorization: `Bearer ${token}` } });
    expect(answer.status).toBe(200);
    tokens.revoke(record.name);
    await expect(answer.text()).rejects.toThrow();
  });

  test("a token is accepted again after its file could not be read for a moment", async () => {
    const { open, tokens, server } = await setUp();
    const { token } = tokens.add("ada", ["read:*"]);
    const kept = readFileSync(tokens.path, "utf8");
    writeFileSync(tokens.path, kept.slice(0, 20));
    const headers = { authorization: `Bearer ${token}` };
    const refused = await fetch(`${server.url}/v1/queues`, { headers });
    const problem = await refused.text();
    expect({ status: refused.status, ...(JSON.parse(problem) as object) }).toMatchObject({
      ...{ status: 503, code: "UNAVAILABLE", retryable: true },
    });
    expect(problem).not.toContain(tokens.path);
    await expect(open(token)).rejects.toMatchObject({ code: "UNAVAILABLE", retryable: true });
    writeFileSync(tokens.path, kept);
    expect((await (await open(token)).queues()).items).toEqual([]);
  });

  test("a token can be created after another process died while writing the file", () => {
    const tokens = makeTokens();
    writeFileSync(`${tokens.path}.new`, "half");
    utimesSync(`${tokens.path}.new`, new Date(0), new Date(0));
    const { record } = tokens.add("ada", ["work:*"]);
    expect(tokens.list()).toEqual([record]);
    expect(existsSync(`${tokens.path}.new`)).toBe(false);
  });

  test("the token file belongs to the owner of its folder, whoever creates it", ({ skip }) => {
    skip(process.getuid?.() !== 0, "needs root");
    const tokens = makeTokens();
    chownSync(dirname(tokens.path), 65_534, 65_534);
    tokens.add("ada", ["work:*"]);
    expect(statSync(tokens.path)).toMatchObject({ uid: 65_534, gid: 65_534 });
    chownSync(tokens.path, 1, 1);
    tokens.add("bob", ["work:*"]);
    expect(statSync(tokens.path)).toMatchObject({ uid: 1, gid: 1 });
    expect(statSync(tokens.path).mode & 0o777).toBe(0o600);
  });

  test("a revoked token cannot be revoked again", () => {
    const tokens = makeTokens();
    const { record } = tokens.add("ada", ["work:*"]);
    tokens.revoke(record.id);
    expect(() => tokens.revoke(record.id)).toThrow(/no token/);
  });
});

describe("scopes of tokens", () => {
  test("scopes decide who may begin a run, read it, cancel it, and define its pipeline", async () => {
    const { openAs, store, actions } = await setUp();
    const stages = ["a", "b"].map((name) => ({ name, joins: false }));
    const first = { ...task("report/a"), run: { pipeline: "report", stages } };
    const producer = await openAs("add:report/*");
    await producer.definePipeline("report", stages);
    const [added] = await producer.add([first]);
    // In the end it adds to the queues of all its stages.
    await forbidden((await openAs("add:report/a")).add([first]), "add:report/b");
    const worker = await openAs("work:report/a");
    await worker.definePipeline("report", stages);
    const { tasks } = await worker.claim(claimCall("report/a"));
    await worker.settle(tasks[0]!, { kind: "ack", result: "1" });
    expect(await store.run(added!.id)).toMatchObject({ parts: [{ state: "done" }, { state: "ready" }] });
    expect(await producer.run(added!.id)).toMatchObject({ run: { state: "running" } });
    const other = await openAs("add:other", "read:other", "work:other", "admin:other");
    await refused(other.run(added!.id), "TASK_NOT_FOUND");
    await refused(other.end(added!.id, { of: "runs" }), "TASK_NOT_FOUND");
    await refused(other.cancelRun(added!.id), "TASK_NOT_FOUND");
    await forbidden(other.definePipeline("report", stages), "report/a");
    expect((await other.pipelines()).items).toEqual([]);
    expect((await producer.pipelines()).items).toEqual([{ name: "report", stages }]);
    await forbidden(producer.cancelRun(added!.id), "admin:report/a");
    expect(await (await openAs("admin:report/*")).cancelRun(added!.id)).toBe("cancelled");
    expect(actions.filter(({ by }) => by !== "dibs tokens")).toMatchObject([
      { by: "t0", verb: "define", queue: "report/a", pipeline: "report" },
      { verb: "cancel", run: added!.id },
    ]);
    expect(await producer.end(added!.id, { of: "runs" })).toMatchObject({ state: "cancelled" });
  });

  test("the scope add allows adding tasks and learning their outcome", async () => {
    const { openAs, store } = await setUp();
    const port = await openAs("add:shop.*");
    await port.declare("shop.orders", {});
    const [added] = await port.add([task("shop.orders")]);
    await forbidden(port.add([task("shop.orders"), task("other")]), '"t0"');
    await forbidden(port.claim(claimCall("shop.orders")), '"t0"');
    await forbidden(port.stats("shop.orders"));
    await forbidden(port.task(added!.id));
    expect((await store.queues()).items).toHaveLength(1);
    const end = port.end(added!.id);
    const { tasks } = await store.claim(claimCall("shop.orders"));
    await store.settle(tasks[0]!, { kind: "ack", result: "r" });
    expect(await end).toMatchObject({ state: "done", result: "r" });
  });

  test("the scope work allows working, and adding only where another scope allows it", async () => {
    const { openAs, store } = await setUp();
    const port = await openAs("work:emails", "add:next");
    await store.add([task("emails"), task("other"), task("emails")]);
    const [foreign] = (await store.claim(claimCall("other"))).tasks;
    const worker = { id: "w", name: "w", queues: ["emails"], concurrency: 1, host: "h", pid: 1 };
    const session = await port.join(worker, 30_000, () => {});
    const [held] = (await port.claim({ ...claimCall("emails"), session })).tasks;
    await port.progress(held!, 0.5, null);
    await forbidden(port.settle(held!, { kind: "ack", result: null, adds: [task("emails")] }), "add:emails");
    await port.settle(held!, { kind: "ack", result: null, adds: [task("next")] });
    await forbidden(port.claim(claimCall("other")), "work:other");
    await forbidden(
      port.join({ ...worker, queues: ["emails", "other"] }, 30_000, () => {}),
      "work:other",
    );
    await refused(port.settle(foreign!, { kind: "ack", result: null }), "CLAIM_LOST");
    await refused(port.extend(foreign!, 1_000), "CLAIM_LOST");
    await forbidden(port.add([task("emails")]), "add:emails");
    await forbidden(port.purge("emails"), "admin:emails");
    await forbidden(port.unhold("emails"), "admin:emails");
    expect(await store.task(foreign!.id)).toMatchObject({ state: "claimed" });
  });

  test("the scope work allows every settlement, over HTTP too, and verdicts on requested results", async () => {
    const { tokens, server, store } = await setUp();
    const { token } = tokens.add("w", ["work:emails"]);
    const { token: judge } = tokens.add("v", ["work:letters/verify"]);
    const post = async (path: string, body: object, by = token) => {
      const headers = { authorization: `Bearer ${by}`, "content-type": "application/json" };
      const answer = await fetch(server.url + path, { method: "POST", headers, body: JSON.stringify(body) });
      return { status: answer.status, ...((await answer.json()) as { claims?: Claim[] }) };
    };
    interface Claim {
      id: string;
      fence: number;
    }
    const claim = async (queue: string, by = token): Promise<string> => {
      const { claims } = await post(`/v1/queues/${encodeURIComponent(queue)}/claims`, { wait: "20s" }, by);
      return `/v1/claims/${claims![0]!.id}/${claims![0]!.fence}`;
    };
    const error = { message: "no" };
    await store.declare("emails", { elsewhere: 0 });
    for (const [word, body] of [
      ["nack", { error, delay: 0 }],
      ["hold", { error, delay: 0 }],
      ["release", {}],
      ["reject", { error }],
    ] as const) {
      await store.add([task("emails")]);
      expect(await post(`${await claim("emails")}/${word}`, body)).toMatchObject({ status: 200 });
      await store.purge("emails");
    }
    await store.declare("letters", { verified: true });
    await store.add([task("letters"), task("letters")]);
    for (const [word, body] of [
      ["refuse", { feedback: "shorter" }],
      ["accept", {}],
    ] as const) {
      const [held] = (await store.claim(claimCall("letters"))).tasks;
      await store.settle(held!, { kind: "ack", result: "1" });
      expect(await post(`${await claim("letters/verify", judge)}/${word}`, body, judge)).toMatchObject({
        ...{ status: 200, state: "done" },
      });
    }
    // A verdict on a result that was taken back has no effect, and its verifier's claim ends.
    await store.add([task("letters")]);
    const [held] = (await store.claim(claimCall("letters"))).tasks;
    await store.settle(held!, { kind: "ack", result: "1" });
    const asked = await claim("letters/verify", judge);
    await store.cancel(held!.id);
    expect(await post(`${asked}/refuse`, { feedback: "shorter" }, judge)).toMatchObject({ status: 200 });
  });

  test("scopes name topics by the queues of their subscriptions", async () => {
    const { openAs, store } = await setUp();
    const port = await openAs("add:topic/order.*", "work:topic/order.placed/*");
    await store.subscribe("secret", "spy", {});
    await port.subscribe("order.placed", "inventory", {});
    expect(await port.publish({ topic: "order.placed", data: "{}" })).toHaveLength(1);
    await forbidden(port.publish({ topic: "secret", data: "{}" }), "add:topic/secret");
    await forbidden(port.subscribe("secret", "me", {}), "work:topic/secret/me");
    await forbidden(port.unsubscribe("order.placed", "inventory"), "admin:topic/order.placed/inventory");
    const [held] = (await port.claim(claimCall("topic/order.placed/inventory"))).tasks;
    await forbidden(
      port.add([{ queue: "secret", data: "{}", topic: "order.placed" } as never]),
      "add:secret",
    );
    const word = { kind: "ack", result: null, adds: [{ topic: "secret", data: "{}" }] } as const;
    await forbidden(port.settle(held!, { ...word, adds: [...word.adds] }), "add:topic/secret");
  });

  test("a token cannot take over the worker of another token", async () => {
    const { openAs, store } = await setUp();
    const victim = await openAs("work:emails");
    const thief = await openAs("work:*");
    const worker = { id: "w", name: "w", queues: ["emails"], concurrency: 1, host: "h", pid: 1 };
    const session = await victim.join(worker, 30_000, () => {});
    await store.add([task("emails")]);
    const [held] = (await victim.claim({ ...claimCall("emails"), session })).tasks;
    const own = await thief.join({ ...worker, id: "t" }, 30_000, () => {});
    expect(own).not.toBe(session);
    for (const take of [
      () => thief.rejoin(session, [], () => {}),
      () => thief.reconcile(session, []),
      () => thief.retire(session),
      () => thief.claim({ ...claimCall("emails"), session }),
    ]) {
      await expect(take()).rejects.toMatchObject({ code: "CLAIM_LOST" });
    }
    await thief.leave(session);
    expect(await victim.settle(held!, { kind: "ack", result: null })).toEqual({ state: "done" });
  });

  test("the scope read shows only the queues that it names", async () => {
    const { openAs, store } = await setUp();
    const port = await openAs("read:a*");
    const events = eachEvent(port.events(new AbortController().signal));
    await port.stats("a1");
    const [, other] = await store.add([task("a1"), task("b1")]);
    expect((await port.queues()).items.map(({ name }) => name)).toEqual(["a1"]);
    await forbidden(port.queues({ queue: "b1" }));
    await refused(port.task(other!.id), "TASK_NOT_FOUND");
    await refused(port.history(other!.id), "TASK_NOT_FOUND");
    await forbidden(port.list({ queue: "b1", state: "ready", limit: 1 }));
    await forbidden(port.add([task("a1")]));
    await store.pause("b1", true);
    await store.pause("a1", true);
    const seen: unknown[] = [];
    while (seen.length < 3) {
      const { value } = await events.next();
      seen.push([(value as { type: string }).type, (value as { queue: string }).queue]);
    }
    expect(seen).toEqual([
      ["queue.created", "a1"],
      ["task.added", "a1"],
      ["queue.paused", "a1"],
    ]);
  });

  test("the scope read:* allows reading the metrics", async () => {
    const { tokens, server } = await setUp();
    const scrape = async (...scopes: string[]): Promise<number> => {
      const { token } = tokens.add(`s${tokens.list().length}`, scopes);
      return (await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${token}` } })).status;
    };
    expect(await scrape("read:*")).toBe(200);
    expect(await scrape("read:a*", "work:*")).toBe(403);
    for (const path of ["/metrics", "/v1/queues"]) {
      const { status, headers } = await fetch(server.url + path);
      expect([status, headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
    }
  });

  test("creating and revoking tokens is audited", async () => {
    const { tokens, actions } = await setUp();
    tokens.add("ada", ["admin:*"]);
    const made = { by: "dibs tokens", verb: "add token", token: "ada" };
    await expect.poll(() => actions, { timeout: 10_000 }).toEqual([made]);
    tokens.revoke("ada");
    await expect.poll(() => actions, { timeout: 10_000 }).toEqual([made, { ...made, verb: "revoke token" }]);
  });

  test("the scope admin allows everything on the queues that it names, and is audited", async () => {
    const { openAs, actions } = await setUp();
    const port = await openAs("admin:a*");
    await port.add([task("a1")]);
    await port.pause("a1", true);
    await port.declare("a1", { maxAttempts: 1 }, { force: true });
    await port.purge("a1");
    await forbidden(port.drop("b1"));
    expect(actions.filter(({ by }) => by === "t0")).toEqual([
      { by: "t0", verb: "pause", queue: "a1" },
      { by: "t0", verb: "declare", queue: "a1" },
      { by: "t0", verb: "purge", queue: "a1" },
    ]);
  });
});

describe("schedules belong to their queue", () => {
  const every = (queue: string) => ({ every: 60_000, missed: "once", task: task(queue) }) as const;

  test("a schedule is created with the scope add on its queue, and changed with admin", async () => {
    const { store, openAs } = await setUp();
    const port = await openAs("add:mine.*");
    await port.schedule("s", every("mine.a"));
    expect(await port.schedule("s", every("mine.b"))).toMatchObject({ task: { queue: "mine.a" } });
    const admin = await openAs("admin:mine.*");
    expect(await admin.schedule("s", every("mine.b"))).toMatchObject({ task: { queue: "mine.b" } });
    await forbidden(port.schedule("t", every("theirs")), "add:theirs");
    await store.schedule("s", every("theirs"));
    for (const each of [port, admin]) {
      const refusal = each.schedule("s", every("mine.a"));
      await forbidden(refusal, "another one has that name");
      await expect(refusal).rejects.not.toMatchObject({ message: expect.stringContaining("theirs") });
    }
    await forbidden(admin.schedule("s", every("mine.a"), { force: true }), "another one has that name");
    // A schedule that the token may not see does not exist for it.
    await expect(admin.pauseSchedule("s", true)).rejects.toMatchObject({ code: "INVALID" });
    expect(await admin.unschedule("s")).toBe(false);
    await forbidden(port.schedule("u", every("mine.a"), { force: true }), "admin:mine.a");
    await expect(port.schedule(null as never, {} as never)).rejects.toMatchObject({ code: "INVALID" });
    expect((await port.schedules()).items).toEqual([]);
  });

  test("a token that may not read a queue gets no payload of its schedules, except its own", async () => {
    const { store, openAs } = await setUp();
    const port = await openAs("add:mine");
    const secret = { ...task("mine"), data: '"secret"', headers: { note: "secret" } };
    await store.schedule("s", { ...every("mine"), task: secret }, { force: true });
    expect(JSON.stringify(await port.schedule("s", every("mine")))).not.toContain("secret");
    const guess = { ...secret, headers: {} };
    expect(await port.schedule("s", { ...every("mine"), task: guess })).toMatchObject({
      task: { data: "null" },
    });
    const own = { ...task("mine"), data: '"own"' };
    expect(await port.schedule("t", { ...every("mine"), task: own })).toMatchObject({
      task: { data: '"own"' },
    });
    const reader = await openAs("add:mine", "read:mine");
    expect(await reader.schedule("s", every("mine"))).toMatchObject({ task: { data: '"secret"' } });
  });

  test("a schedule is paused and removed with admin on its queue, and that is audited", async () => {
    const { store, openAs, actions } = await setUp();
    await store.schedule("s", every("mine"));
    const port = await openAs("add:mine", "read:mine");
    await forbidden(port.pauseSchedule("s", true), "admin:mine");
    await forbidden(port.unschedule("s"), "admin:mine");
    expect((await port.schedules()).items).toHaveLength(1);
    const admin = await openAs("admin:mine");
    await admin.pauseSchedule("s", true);
    expect(await admin.unschedule("s")).toBe(true);
    expect(await admin.unschedule("s")).toBe(false);
    const theirs = actions.filter(({ by }) => by !== "dibs tokens");
    expect(theirs).toEqual([
      { by: "t1", verb: "pause", queue: "mine", schedule: "s" },
      { by: "t1", verb: "unschedule", queue: "mine", schedule: "s" },
    ]);
  });
});
