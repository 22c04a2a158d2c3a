import { execFile } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Writable } from "node:stream";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { EXIT } from "../../src/cli/exit.ts";
import { open } from "../../src/index.ts";
import { freshDatabase, freshSchema } from "../postgres/shared.ts";
import { dibs, dibsJson, makeFolder, serve, start } from "./run-dibs.ts";

test("--help shows default durations with their unit", async () => {
  const [work, serve] = await Promise.all(
    ["work", "serve"].map((verb) => dibs(makeFolder(), [verb, "--help"])),
  );
  expect(work!.stdout).toMatch(/--stop-timeout .*\s+\(default: 30s\)/);
  expect(serve!.stdout).toMatch(/\(DIBS_DRAIN; 25s\)/);
});

test("dibs --version prints the version", async () => {
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
    version: string;
  };
  for (const flag of ["--version", "-v"])
    expect(await dibs(makeFolder(), [flag])).toEqual({ code: EXIT.done, stdout: `${version}\n`, stderr: "" });
});

describe("dibs serve", () => {
  test("dibs serve warns that --let-anyone-in lets anyone in", async () => {
    const child = start(makeFolder(), ["serve", "--port", "0", "--url", ":memory:", "--let-anyone-in"]);
    const logged: string[] = [];
    for await (const line of createInterface({ input: child.stderr })) {
      logged.push(line);
      if (line.includes("may read and change everything")) break;
      // The server has started and stops without having warned.
      if (line.includes("listening")) setTimeout(() => child.kill("SIGTERM"), 500);
    }
    expect(logged.at(-1)).toContain("--let-anyone-in: everyone who reaches http://127.0.0.1:");
  });

  test("dibs serve serves a file to commands and programs, and stops on a signal", async () => {
    const folder = makeFolder();
    const { child, url } = await serve(folder, "--url", "work.db");
    const added = await dibs(
      folder,
      ["add", "emails", '{"to":"ada"}', "--priority", "5", "--header", "a=b"],
      {
        env: { DIBS_URL: url },
      },
    );
    expect(added).toMatchObject({
      code: EXIT.done,
      stdout: expect.stringMatching(/^[0-9a-f-]{36}\n$/),
      stderr: "",
    });
    const remote = await open(url);
    onTestFinished(() => remote.close());
    const [claim] = await remote.queue("emails").claim();
    expect(claim).toMatchObject({
      data: { to: "ada" },
      priority: 5,
      headers: { a: "b" },
      id: added.stdout.trim(),
    });
    await claim!.ack();
    child.kill("SIGTERM");
    expect(await once(child, "close")).toEqual([0, null]);
    const stats = await dibs(folder, ["queues", "--json", "--url", "work.db"]);
    expect(JSON.parse(stats.stdout)).toMatchObject([{ queue: "emails", depth: { done: 1, ready: 0 } }]);
  });

  test("dibs serve serves a schema of PostgreSQL, behind a pooler", async () => {
    const { url: database, schema } = await freshSchema(onTestFinished);
    const folder = makeFolder();
    const { url } = await serve(folder, "--url", database, "--schema", schema, "--pooler");
    expect(await dibs(folder, ["add", "emails", "1", "--url", url])).toMatchObject({ code: EXIT.done });
    const store = await open(database, { schema });
    onTestFinished(() => store.close());
    expect((await store.queue("emails").stats()).depth.ready).toBe(1);
    expect(await dibs(folder, ["serve", "--url", "work.db", "--pooler"])).toMatchObject({
      ...{ code: EXIT.usage, stderr: expect.stringContaining("listen") },
    });
  });

  test("dibs serve requires the tokens that dibs tokens creates", async () => {
    const folder = makeFolder();
    const made = await dibs(folder, ["tokens", "add", "ci", "--scope", "add:emails", "read:*", "--json"]);
    const { token } = JSON.parse(made.stdout) as { token: string };
    const { url } = await serve(folder);
    const without = await dibs(folder, ["add", "emails", "1", "--url", url]);
    expect(without).toMatchObject({ code: EXIT.forbidden, stderr: expect.stringContaining("DIBS_TOKEN") });
    const env = { DIBS_TOKEN: token };
    expect(await dibs(folder, ["add", "emails", "1", "--url", url], { env })).toMatchObject({
      code: EXIT.done,
    });
    writeFileSync(join(folder, "token"), `${token}\n`);
    const inFile = { DIBS_TOKEN_FILE: "token" };
    expect(await dibs(folder, ["add", "emails", "2", "--url", url], { env: inFile })).toMatchObject({
      code: EXIT.done,
    });
    // A token is for servers: a file needs none.
    expect(await dibs(folder, ["add", "emails", "2", "--url", "work.db"], { env: inFile })).toMatchObject({
      code: EXIT.done,
    });
    expect(await dibs(folder, ["add", "other", "1", "--url", url], { env })).toMatchObject({
      code: EXIT.forbidden,
      stderr: expect.stringContaining("add:other"),
    });
    const listed = await dibs(folder, ["tokens", "ls"]);
    expect(listed.stdout).toMatch(/ci +[0-9a-f]{12} +add:emails read:\*/);
    expect(listed.stdout).not.toContain(token);
  });

  test("a token with the scope work is enough for dibs work, and dibs queues does not say that there are none", async () => {
    const folder = makeFolder();
    const scopes = ["--scope", "work:emails", "add:emails", "--json"];
    const made = await dibs(folder, ["tokens", "add", "worker", ...scopes]);
    const env = { DIBS_TOKEN: (JSON.parse(made.stdout) as { token: string }).token };
    const { url } = await serve(folder);
    expect(await dibs(folder, ["add", "emails", "1", "--url", url], { env })).toMatchObject({
      code: EXIT.done,
    });
    const work = ["work", "emails", "--once", "--url", url, "--", "cat"];
    expect(await dibs(folder, work, { env })).toMatchObject({ code: EXIT.done });
    expect((await dibs(folder, ["queues", "--url", url], { env })).stderr).toContain("may not read them");
  });

  test("dibs serve refuses a public address without tokens, and prints its configuration", async () => {
    const folder = makeFolder();
    const refused = await dibs(folder, ["serve", "--host", "0.0.0.0"]);
    expect(refused).toMatchObject({ code: EXIT.usage, stderr: expect.stringContaining("--let-anyone-in") });
    const printed = await dibs(folder, ["serve", "--print-config", "--port", "1"], {
      env: { DIBS_DRAIN: "5s" },
    });
    expect(printed.stdout).toMatch(/^port +1 +--port$/m);
    expect(printed.stdout).toMatch(/^drain +5000 +DIBS_DRAIN$/m);
  });

  test("dibs serve does not start with a token file that it cannot read", async () => {
    const folder = makeFolder();
    writeFileSync(join(folder, "tokens.json"), "half");
    expect(await dibs(folder, ["serve", "--port", "0", "--tokens", "tokens.json"])).toMatchObject({
      ...{ code: EXIT.usage, stdout: "", stderr: expect.stringContaining("cannot be read") },
    });
  });
});

describe("dibs serve --tls-cert --tls-key", () => {
  test("dibs serve with TLS speaks https, and nothing else", async () => {
    const folder = makeFolder();
    const run = promisify(execFile);
    const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"];
    const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key.pem"];
    await run("openssl", ["req", "-x509", "-days", "2", ...key, "-out", "cert.pem", ...subject], {
      cwd: folder,
    });
    const { url } = await serve(folder, "--tls-cert", "cert.pem", "--tls-key", "key.pem");
    expect(url).toMatch(/^https:/);
    const env = { NODE_EXTRA_CA_CERTS: join(folder, "cert.pem") };
    expect(await dibs(folder, ["add", "emails", "1", "--url", url], { env })).toMatchObject({
      code: EXIT.done,
    });
    const readiness = async (): Promise<unknown> => {
      const answer = await run("curl", ["-sS", "--cacert", "cert.pem", `${url}/readyz`], { cwd: folder });
      return JSON.parse(answer.stdout);
    };
    // A server that gets no core for two seconds is not ready for a moment.
    await expect.poll(readiness).toEqual({ status: "ready" });
    // A client that does not trust the certificate, or does not use TLS, is refused.
    expect(await dibs(folder, ["queues", "--url", url])).toMatchObject({ code: EXIT.unavailable });
    await expect(fetch(url.replace("https", "http"))).rejects.toThrow();
  });

  test("dibs serve with TLS requires both files, and that they can be read", async () => {
    const folder = makeFolder();
    expect(await dibs(folder, ["serve", "--tls-cert", "cert.pem"])).toMatchObject({
      ...{ code: EXIT.usage, stderr: expect.stringContaining("--tls-key") },
    });
    writeFileSync(join(folder, "other.pem"), "no certificate");
    for (const file of ["no.pem", "other.pem"])
      expect(await dibs(folder, ["serve", "--tls-cert", file, "--tls-key", file])).toMatchObject({
        ...{ code: EXIT.usage, stderr: expect.stringContaining("cannot be read") },
      });
  });
});

test("dibs queues refuses a store that does not exist, and creates none", async () => {
  const folder = makeFolder();
  expect(await dibs(folder, ["queues", "--url", "tpyo.db"])).toMatchObject({
    ...{ code: EXIT.usage, stdout: "", stderr: expect.stringContaining("tpyo.db") },
  });
  expect(readdirSync(folder)).toEqual([]);
});

describe("dibs tokens", () => {
  test("dibs tokens ls without tokens says so, and prints no empty table", async () => {
    const { code, stdout, stderr } = await dibs(makeFolder(), ["tokens", "ls"]);
    expect({ code, stdout }).toEqual({ code: EXIT.done, stdout: "" });
    expect(stderr).toContain("There are no tokens.");
  });

  test("dibs tokens revoke asks first, and changes nothing in a dry run", async () => {
    const folder = makeFolder();
    await dibs(folder, ["tokens", "add", "mailer", "--scope", "work:emails"]);
    const id = expect.stringMatching(/^[0-9a-f]{12}$/);
    expect(await dibs(folder, ["tokens", "revoke", "mailr", "--yes"])).toMatchObject({
      ...{ code: EXIT["not found"], stderr: expect.stringContaining('Did you mean "mailer"?') },
    });
    expect(await dibs(folder, ["tokens", "revoke", "mailer"])).toMatchObject({
      code: EXIT.usage,
      stderr: expect.stringMatching(/Revoke the token mailer \(\w+\), which allows work:emails\? .* --yes/),
    });
    expect(await dibsJson(folder, "tokens", "revoke", "mailer", "--dry-run")).toEqual({
      ...{ revoked: id, dryRun: true },
    });
    expect(await dibsJson(folder, "tokens", "ls")).toMatchObject([{ id, name: "mailer" }]);
    expect(await dibsJson(folder, "tokens", "revoke", "mailer", "--yes")).toEqual({ revoked: id });
    expect(await dibsJson(folder, "tokens", "ls")).toEqual([]);
  });

  test("several tokens can be created at the same time", async () => {
    const folder = makeFolder();
    const names = ["a", "b", "c", "d"];
    await Promise.all(names.map((name) => dibs(folder, ["tokens", "add", name, "--scope", "read:*"])));
    const { stdout } = await dibs(folder, ["tokens", "ls", "--json"]);
    expect((JSON.parse(stdout) as { name: string }[]).map(({ name }) => name).toSorted()).toEqual(names);
  });

  test.each([
    [["--url", "http://127.0.0.1:7411"], "on its machine"],
    [["--tokens", "there/is/none.json"], "cannot be written"],
  ])("dibs tokens refuses %j with an explanation, and creates none", async (flags, words) => {
    const folder = makeFolder();
    const made = await dibs(folder, ["tokens", "add", "ci", "--scope", "read:*", ...flags]);
    expect(made).toMatchObject({ code: EXIT.usage, stdout: "", stderr: expect.stringContaining(words) });
    expect(readdirSync(folder)).toEqual([]);
  });
});

test("dibs queues shows what holds a queue back", async () => {
  const folder = makeFolder();
  const store = await open(join(folder, "dibs.db"));
  await store.queue("calls", { maxConcurrency: 1 }).addMany([{ data: 1 }, { data: 2 }]);
  await store.queue("calls").claim();
  await store.close();
  const table = await dibs(folder, ["queues"]);
  expect(table.stdout).toMatch(/ WORKERS +HELD BACK\ncalls +1 .* concurrency\n$/);
  const { stdout } = await dibs(folder, ["queues", "--json"]);
  expect(JSON.parse(stdout)).toMatchObject([{ heldBack: { by: "concurrency", until: null } }]);
});

test("dibs unhold ends a hold, and prints whether there was one", async () => {
  const folder = makeFolder();
  const store = await open(join(folder, "dibs.db"));
  await store.queue("calls").add(1, { groupKey: "provider" });
  const [claim] = await store.queue("calls").claim();
  await claim!.hold(new Error("429"), { delay: "1h" });
  await store.close();
  const lifted = { code: EXIT.done, stdout: "lifted\n", stderr: "" };
  expect(await dibs(folder, ["unhold", "calls", "--group", "provider"])).toEqual(lifted);
  expect(await dibs(folder, ["unhold", "calls"])).toMatchObject({ stdout: "nothing was held\n" });
  expect(await dibs(folder, ["unhold", "calls", "--json"])).toMatchObject({ stdout: '{"lifted":false}\n' });
});

test("a run that is not in the store is called a run, not a task", async () => {
  const folder = makeFolder();
  await dibs(folder, ["add", "emails", "1"]);
  for (const verb of ["show", "cancel"])
    expect(await dibs(folder, ["run", verb, "01980000-0000-7000-8000-000000000000"])).toMatchObject({
      ...{ code: EXIT["not found"], stderr: expect.stringContaining("There is no run 01980000-") },
    });
});

describe("a store that this user may not open", () => {
  // Root may open everything, so the tests of root take another user.
  const isRoot = process.getuid?.() === 0;
  const uid = isRoot ? 65_534 : undefined;

  test.each([
    ["a file of another user", "store.db", /^dibs: This user may not write \S+store\.db \(EACCES\)/],
    ["a file in a closed folder", "closed/store.db", /^dibs: This user may not open the folder \S+closed \(/],
    [
      "a file in a folder of a closed folder",
      "closed/in/store.db",
      /^dibs: This user may not open the folder /,
    ],
  ])("%s is refused with what to do, whatever the verb", async (_, file, message) => {
    // The folder for temporary files of a test run is closed to other users.
    const folder = mkdtempSync("/tmp/dibs-cli-");
    onTestFinished(() => rmSync(folder, { recursive: true }));
    for (const part of [join(folder, "closed"), join(folder, "closed/in")]) mkdirSync(part);
    expect(await dibs(folder, ["add", "emails", "1", "--url", file])).toMatchObject({ code: EXIT.done });
    chmodSync(join(folder, file), isRoot ? 0o600 : 0o400);
    chmodSync(join(folder, "closed"), isRoot ? 0o700 : 0o000);
    chmodSync(folder, 0o755);
    onTestFinished(() => chmodSync(join(folder, "closed"), 0o700));
    for (const args of [["queues"], ["add", "emails", "2"], ["work", "emails", "--once", "--", "cat"]]) {
      const options = { env: { DIBS_URL: file }, ...(uid !== undefined && { uid }) };
      expect(await dibs(folder, args, options)).toMatchObject({
        ...{ code: EXIT.usage, stdout: "", stderr: expect.stringMatching(message) },
      });
    }
  });
});

describe("dibs add", () => {
  test.each([
    [["numbers", "{"], ""],
    [["no name!", "1"], ""],
    [["numbers", "1", "--delay", "soon"], ""],
    [["numbers", "1", "--max-attempts", "0"], ""],
    [["numbers", "1", "--cost", "-1"], ""],
    [["numbers", "1", "--url", "localhost:7411"], ""],
    [["numbers", "1", "--url", ":memory:"], ""],
    [["numbers", "-"], "1\n{\n"],
    [["no name!", "-"], ""],
    [["numbers", "-", "--ttl", "soon"], "1\n2\n"],
  ])("dibs add with %j and the input %j creates no store", async (args, input) => {
    const folder = makeFolder();
    expect(await dibs(folder, ["add", ...args], { input })).toMatchObject({ code: EXIT.usage, stdout: "" });
    expect(readdirSync(folder)).toEqual([]);
  });

  describe("dibs add without a payload", () => {
    test.each([
      ["a line", (input: Writable) => input.end('{"a":1}\n')],
      ["nothing yet", () => {}],
    ])("refuses a pipe with %s, and says how it is read", async (_, write) => {
      const folder = makeFolder();
      const child = start(folder, ["add", "numbers"]);
      let said = "";
      child.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
      write(child.stdin);
      expect(await once(child, "close")).toEqual([EXIT.usage, null]);
      expect(said).toMatch(/standard input is not empty.* dibs add numbers - .* dibs add numbers null /);
      expect(readdirSync(folder)).toEqual([]);
    });

    test("dibs add without a payload adds null if its input is an empty pipe, as under cron", async () => {
      const folder = makeFolder();
      const { stdout, code } = await dibs(folder, ["add", "numbers"]);
      expect(code).toBe(EXIT.done);
      expect(await dibsJson(folder, "task", "show", stdout.trim())).toMatchObject({ data: null });
    });
  });

  test("a refused dibs add creates no schema in PostgreSQL", async () => {
    const url = await freshDatabase(onTestFinished);
    const env = { DIBS_URL: url };
    expect(await dibs(makeFolder(), ["add", "no name!", "1"], { env })).toMatchObject({ code: EXIT.usage });
    await expect(open(url, { create: false })).rejects.toMatchObject({ code: "INVALID" });
  });

  test("dibs add adds its tasks even if its output is not read", async () => {
    const folder = makeFolder();
    const child = start(folder, ["add", "numbers", "-"]);
    child.stdout.destroy();
    child.stdin.end("1\n".repeat(1_200));
    expect(await once(child, "close")).toEqual([0, null]);
    expect((await dibs(folder, ["queues"])).stdout).toMatch(/numbers +1200 /);
  });

  test("dibs add - adds each line when it arrives, and the first Ctrl-C stops it after that", async () => {
    const folder = makeFolder();
    const child = start(folder, ["add", "numbers", "-"]);
    const ids = createInterface({ input: child.stdout });
    const stderr: string[] = [];
    child.stderr.setEncoding("utf8").on("data", (part: string) => stderr.push(part));
    for (const line of ["1\n", '{"n":2}\n']) {
      child.stdin.write(line);
      await once(ids, "line");
    }
    child.kill("SIGINT");
    expect(await once(child, "close")).toEqual([EXIT.interrupted, null]);
    expect(stderr.join("")).toBe("dibs: Stopped after 2 tasks.\n");
    expect((await dibs(folder, ["queues"])).stdout).toMatch(/numbers +2 /);
  });

  test("dibs add --file adds a task for every line of the file", async () => {
    const folder = makeFolder();
    writeFileSync(join(folder, "tasks.jsonl"), '1\n\n"two"\n3');
    const { stdout, stderr } = await dibs(folder, ["add", "numbers", "--file", "tasks.jsonl"]);
    expect(stdout.trim().split("\n")).toHaveLength(3);
    expect(stderr).toBe("");
    expect(await dibs(folder, ["add", "numbers", "--file", "no.jsonl"])).toMatchObject({
      ...{ code: EXIT.usage, stderr: expect.stringContaining("no.jsonl cannot be read (ENOENT)") },
    });
    expect(await dibs(folder, ["add", "numbers", "1", "--file", "tasks.jsonl"])).toMatchObject({
      ...{ code: EXIT.usage, stderr: expect.stringContaining("Name only one") },
    });
  });

  test("dibs add says which line is not JSON, and how many tasks were added before it", async () => {
    const folder = makeFolder();
    const child = start(folder, ["add", "numbers", "-"]);
    const stderr: string[] = [];
    child.stderr.setEncoding("utf8").on("data", (part: string) => stderr.push(part));
    child.stdin.write("1\n");
    await once(child.stdout, "data");
    child.stdin.end("{\n");
    expect(await once(child, "close")).toEqual([EXIT.usage, null]);
    expect(stderr.join("")).toMatch(/^dibs: Line 2 is not JSON: "{".* 1 task before it was added\./);
  });

  test("dibs add - adds a task for every line of standard input", async () => {
    const folder = makeFolder();
    const lines = Array.from({ length: 1_200 }, (_, n) => JSON.stringify({ n })).join("\n");
    const { stdout, code } = await dibs(folder, ["add", "numbers", "-"], { input: `${lines}\n\n` });
    expect(code).toBe(EXIT.done);
    expect(new Set(stdout.trim().split("\n")).size).toBe(1_200);
    const table = await dibs(folder, ["queues"]);
    expect(table.stdout).toMatch(/^QUEUE +READY .*\nnumbers +1200 /);
  });

  test.each([
    [["add", "emails", "{"], EXIT.usage, "is not JSON"],
    [["add", "a b", "1"], EXIT.usage, "queue name"],
    [["add", "emails", "1", "--priority", "high"], EXIT.usage, "whole number"],
    [["add", "emails", "1", "--delay", "soon"], EXIT.usage, "duration"],
    [["add", "emails", "1", "--url", "http://127.0.0.1:1"], EXIT.unavailable, "dibs serve"],
    [["add"], EXIT.usage, "missing required argument 'queue'\n(see dibs add --help)"],
    [["help", "wrk"], EXIT.usage, "unknown command 'wrk'. Did you mean \"work\"?\n(see dibs --help)"],
    [["ad", "emails"], EXIT.usage, "unknown command"],
  ])("dibs refuses %j with an explanation", async (args, code, words) => {
    expect(await dibs(makeFolder(), args)).toMatchObject({ code, stderr: expect.stringContaining(words) });
  });
});
