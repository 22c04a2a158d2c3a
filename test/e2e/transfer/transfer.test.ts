import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { EXIT } from "../../../src/cli/exit.ts";
import { open } from "../../../src/index.ts";
import { openTransfer } from "../../../src/transfer/open.ts";
import { freshDatabase } from "../../postgres/shared.ts";
import { arrived, depthOf, ended, fill, makeFolder, start } from "./dibs.ts";

/** Each command is a process. */
const SLOW = { timeout: 120_000 };

describe("dibs export and dibs import", () => {
  test("export and import bring a file to PostgreSQL and back without loss", SLOW, async () => {
    const folder = makeFolder();
    const [file, back, lines] = ["a.db", "b.db", "a.jsonl"].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    const url = await freshDatabase((undo) => onTestFinished(undo));
    await fill(file, 2_000);
    const before = await depthOf(file);
    const exported = await ended(start(folder, "export", file), { into: lines });
    expect(exported).toMatchObject({ code: EXIT.done });
    expect(exported.stderr).toContain("Exported 2,000 tasks");
    expect(await ended(start(folder, "import", url), { from: lines })).toMatchObject({ code: EXIT.done });
    expect(await depthOf(url)).toEqual(before);
    await ended(start(folder, "export", "--url", url), { into: lines });
    expect(await ended(start(folder, "import", back), { from: lines })).toMatchObject({ code: EXIT.done });
    expect(await depthOf(back)).toEqual(before);
  });

  test("export and import refuse bad input with a clear error, and create no store", async () => {
    const folder = makeFolder();
    const none = await ended(start(folder, "export", "nothing.db"));
    expect(none).toMatchObject({ code: EXIT.usage });
    expect(none.stderr).toContain("There is no store nothing.db");
    const lines = join(folder, "bad.jsonl");
    writeFileSync(lines, '{"hello":1}\n');
    const bad = await ended(start(folder, "import", "new.db"), { from: lines });
    expect(bad.stderr).toContain("Line 1 is not a record of an export");
    writeFileSync(lines, '{"type":"store","format":99}\n');
    const newer = await ended(start(folder, "import", "new.db"), { from: lines });
    expect(newer.stderr).toContain("names format 99");
    writeFileSync(lines, "");
    const empty = await ended(start(folder, "import", "new.db"), { from: lines });
    expect(empty.stderr).toContain("does not begin with a store record. Nothing was written.");
    expect(existsSync(join(folder, "new.db"))).toBe(false);
    const server = await ended(start(folder, "export", "http://127.0.0.1:1"));
    expect(server.stderr).toContain("Name the store itself");
  });

  test("import refuses a truncated file, and leaves the store closed", async () => {
    const folder = makeFolder();
    const [file, lines] = [join(folder, "a.db"), join(folder, "a.jsonl")];
    await fill(file, 10);
    await ended(start(folder, "export", file), { into: lines });
    writeFileSync(lines, readFileSync(lines, "utf8").split("\n").slice(0, -3).join("\n"));
    const cut = await ended(start(folder, "import", "b.db"), { from: lines });
    expect(cut.stderr).toContain("its end is missing");
    await expect(open(join(folder, "b.db"))).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });
});

describe("dibs move", () => {
  test("move is refused while a worker holds a task, waits for it with --wait, and closes the old store", async () => {
    const folder = makeFolder();
    const [from, to] = [join(folder, "a.db"), join(folder, "b.db")];
    const dibs = await open(from);
    onTestFinished(() => dibs.close());
    const queue = dibs.queue("work");
    await queue.addMany([{ data: 1 }, { data: 2 }]);
    const [held] = await queue.claim();
    const refused = await ended(start(folder, "move", from, to));
    expect(refused).toMatchObject({ code: EXIT.unavailable });
    expect(refused.stderr).toContain("--wait");
    const moving = start(folder, "move", from, to, "--wait");
    await once(moving.stderr!, "data");
    await held!.ack();
    expect(await ended(moving)).toMatchObject({ code: EXIT.done });
    expect(await depthOf(to)).toEqual({ ready: 1, done: 1 });
    // A process that had it open gets the error, and so does one that opens it.
    await expect(queue.add(3)).rejects.toMatchObject({ code: "UNAVAILABLE", retryable: false });
    await expect(open(from)).rejects.toThrow(`was moved to another store (${to})`);
  });

  test("the error of a moved store contains no password of the target", async () => {
    const folder = makeFolder();
    const from = join(folder, "a.db");
    const url = new URL(await freshDatabase((undo) => onTestFinished(undo)));
    url.password ||= "secret-word";
    await fill(from, 10);
    expect(await ended(start(folder, "move", from, url.href))).toMatchObject({ code: EXIT.done });
    const error = await open(from).catch((thrown: unknown) => thrown);
    expect((error as Error).message).toContain(`postgres://${url.host}${url.pathname}`);
    expect((error as Error).message).not.toContain(url.password);
  });

  test("a move that was stopped by Ctrl-C continues when it is repeated", SLOW, async () => {
    const folder = makeFolder();
    const [from, to] = [join(folder, "a.db"), join(folder, "b.db")];
    await fill(from, 20_000);
    const before = await depthOf(from);
    const target = await openTransfer(to, { create: true });
    onTestFinished(() => target.close());
    const moving = start(folder, "move", from, to);
    await arrived(target, 1);
    moving.kill("SIGINT");
    const first = await ended(moving);
    expect(first.stderr).toContain("Run the same command to continue");
    await ended(start(folder, "move", from, to));
    expect(await depthOf(to)).toEqual(before);
  });

  for (const kind of ["a file", "PostgreSQL"]) {
    test(`a move to ${kind} that is killed again and again loses and duplicates nothing`, SLOW, async () => {
      const folder = makeFolder();
      const from = join(folder, "a.db");
      const to =
        kind === "a file" ? join(folder, "b.db") : await freshDatabase((undo) => onTestFinished(undo));
      await fill(from, 20_000);
      const before = await depthOf(from);
      const target = await openTransfer(to, { create: true });
      onTestFinished(() => target.close());
      let kills = 0;
      for (let least: number | undefined = 0; kills < 3 && least !== undefined; kills++) {
        const moving = start(folder, "move", from, to);
        const end = ended(moving);
        least = await arrived(target, least + 1);
        moving.kill("SIGKILL");
        await end;
      }
      expect(await ended(start(folder, "move", from, to))).toMatchObject({ code: EXIT.done });
      expect(kills).toBe(3);
      expect(await depthOf(to)).toEqual(before);
      await expect(open(from)).rejects.toThrow("was moved to");
    });
  }
});
