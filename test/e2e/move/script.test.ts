import {
  type ChildProcessWithoutNullStreams,
  spawn,
  type SpawnOptionsWithoutStdio,
} from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect } from "vitest";
import { EXIT } from "../../../src/cli/exit.ts";
import { open } from "../../../src/index.ts";
import { freshSchema } from "../../postgres/shared.ts";
import { type Stage, test, until } from "../harness/stage.ts";

const SCRIPT = fileURLToPath(new URL("../../../scripts/move.ts", import.meta.url));

/** The script itself, in the stage's folder. */
class Script {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly ended: Promise<{ code: number | null; stdout: string; stderr: string }>;
  stdout = "";
  stderr = "";

  constructor(stage: Stage, args: string[], options: SpawnOptionsWithoutStdio = { cwd: stage.folder }) {
    this.#child = spawn(process.execPath, [SCRIPT, ...args], options);
    stage.onEnd(() => this.#child.kill("SIGKILL"));
    this.#child.stdout.setEncoding("utf8").on("data", (text: string) => (this.stdout += text));
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => (this.stderr += text));
    this.ended = once(this.#child, "close").then(([code]) => {
      return { code: code as number | null, stdout: this.stdout, stderr: this.stderr };
    });
  }

  says(text: string): Promise<void> {
    return until(`the script says "${text}"`, () => this.stdout.includes(text));
  }

  async stop(signal: NodeJS.Signals) {
    this.#child.kill(signal);
    return this.ended;
  }
}

const run = (stage: Stage, ...args: string[]) => new Script(stage, args).ended;

describe("npm run move", () => {
  test("says how it is called", async ({ stage }) => {
    const help = await run(stage, "--help");
    expect(help).toMatchObject({ code: EXIT.done, stderr: "" });
    for (const flag of ["--queue", "--follow", "--to-schema", "--from-pooler", "Exit codes"])
      expect(help.stdout).toContain(flag);
    for (const args of [[], ["one.db"], ["one.db", "two.db", "three.db"], ["one.db", "two.db", "--folow"]])
      expect(await run(stage, ...args)).toMatchObject({
        ...{ code: EXIT.usage, stdout: "", stderr: expect.stringContaining("Usage: npm run move") },
      });
  });

  test("makes no store to be moved from, and knows the queues there are", async ({ stage }) => {
    expect(await run(stage, "wrok.db", "new.db")).toMatchObject({
      ...{ code: EXIT.usage, stdout: "", stderr: expect.stringContaining("There is no store") },
    });
    expect(readdirSync(stage.folder)).toEqual([]);
    await (await stage.open()).queue("letters").add(1);
    expect(await run(stage, "work.db", "new.db", "--queue", "nope")).toMatchObject({
      ...{ code: EXIT.usage, stdout: "", stderr: expect.stringMatching(/"nope".*there are: letters/) },
    });
    const nowhere = await run(stage, "work.db", "postgres://nobody@127.0.0.1:1/none");
    expect(nowhere).toMatchObject({ code: EXIT.unavailable });
  });

  test("takes a file as it is seen from where npm was called", async ({ stage }) => {
    await (await stage.open()).queue("letters").add(1);
    // npm runs it in the project's folder, wherever it was called.
    const env = { ...process.env, npm_lifecycle_event: "move", INIT_CWD: stage.folder };
    const { ended } = new Script(stage, ["work.db", "new.db"], { cwd: dirname(SCRIPT), env });
    expect(await ended).toMatchObject({ code: EXIT.done, stderr: "" });
    expect(readdirSync(stage.folder)).toContain("new.db");
  });

  test("moves to a schema behind a pooler, and back; says what is paused and stays", async ({ stage }) => {
    const { url, schema } = await freshSchema((undo) => stage.onEnd(undo));
    const here = await stage.open();
    await here.queue("letters").add(1);
    await here.queue("held").pause();
    await here.schedule("nightly", { cron: "0 3 * * *" }, { queue: "letters" }).ready;
    const moved = await run(stage, "work.db", url, "--to-schema", schema, "--to-pooler");
    expect(moved).toMatchObject({ code: EXIT.done, stderr: "" });
    for (const words of [
      "letters: 1 moved\n1 tasks moved, 0 left\n",
      "held is paused there",
      "nightly. Delete",
    ])
      expect(moved.stdout).toContain(words);
    const there = await open(url, { schema });
    stage.onEnd(() => there.close());
    expect((await there.queue("letters").stats()).depth.ready).toBe(1);
    const back = ["--from-schema", schema, "--from-pooler", "--queue", "letters"];
    expect(await run(stage, url, "work.db", ...back)).toMatchObject({ code: EXIT.done });
    expect((await here.queue("letters").stats()).depth.ready).toBe(1);
    expect(await run(stage, url, "work.db", "--from-schema", `${schema}_not`)).toMatchObject({
      ...{ code: EXIT.usage, stderr: expect.stringContaining("There is no store in the schema") },
    });
    expect(await run(stage, "work.db", "new.db", "--from-schema", schema)).toMatchObject({
      code: EXIT.usage,
    });
  });

  test("says what it waits for; Ctrl-C ends it, and it can be run again", async ({ stage }) => {
    const here = await stage.open();
    await here.queue("letters").addMany([{ data: 1 }, { data: 2 }]);
    const [claim] = await here.queue("letters").claim();
    const waiting = new Script(stage, ["work.db", "new.db"]);
    await waiting.says("letters: 1 moved\nwaiting for 1 that run\n");
    const stopped = await waiting.stop("SIGINT");
    expect(stopped).toMatchObject({ code: EXIT.failed, stderr: "" });
    expect(stopped.stdout.split("waiting for")).toHaveLength(2);
    expect(stopped.stdout).toMatch(/can be run again\n1 tasks moved, 1 left: run it again to move them\n$/);
    await claim!.ack();
    expect(await run(stage, "work.db", join(stage.folder, "new.db"))).toMatchObject({
      ...{ code: EXIT.done, stdout: expect.stringContaining("1 tasks moved, 0 left\n") },
    });
  });

  test("--follow goes on until it is told to stop, and tells whether something is left", async ({
    stage,
  }) => {
    const here = await stage.open();
    await here.queue("letters").add(1);
    const [claim] = await here.queue("letters").claim();
    const busy = new Script(stage, ["work.db", "new.db", "--follow"]);
    await busy.says("waiting for 1 that run");
    expect(await busy.stop("SIGTERM")).toMatchObject({ code: EXIT.failed });
    await claim!.ack();
    const idle = new Script(stage, ["work.db", "new.db", "--follow"]);
    await idle.says("letters: 1 moved");
    await here.queue("letters").add(2);
    await idle.says("letters: 2 moved");
    expect(await idle.stop("SIGTERM")).toMatchObject({
      ...{ code: EXIT.done, stdout: expect.stringContaining("2 tasks moved, 0 left\n") },
    });
  });
});
