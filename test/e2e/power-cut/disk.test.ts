// The disk of these tests does lose what was not synced: otherwise they would prove nothing.

import { closeSync, fdatasyncSync, openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { open } from "../../../src/index.ts";
import { MortalDisk, whyNoMortalDisk } from "../harness/mortal-disk.ts";
import { test, until } from "../harness/stage.ts";
import { Logs, ROLES, startRole } from "../kill/roles.ts";
import { FileMachine } from "./file-machine.ts";
import { findLosses } from "./losses.ts";

const why = await whyNoMortalDisk();

describe.skipIf(why)(`a disk whose power is cut${why ? `, not here: ${why}` : ""}`, () => {
  test("a power cut keeps what was synced, and drops what was not", async ({ stage }) => {
    const disk = await MortalDisk.on(stage);
    const file = openSync(join(disk.path, "file"), "w");
    writeSync(file, "synced ");
    fdatasyncSync(file);
    writeSync(file, "and not synced");
    writeSync(file, "SYNCED", 0);
    closeSync(openSync(join(disk.path, "another"), "w"));
    await disk.cut(() => {});
    expect(() => fdatasyncSync(file)).toThrow("EIO");
    closeSync(file);
    await disk.restore();
    expect(readFileSync(join(disk.path, "file"), "utf8")).toBe("synced ");
    expect(readdirSync(disk.path)).not.toContain("another");
  });

  test("a store that is opened relaxed loses acknowledged tasks, and its file stays sound", async ({
    stage,
  }) => {
    const disk = await MortalDisk.on(stage);
    const machine = new FileMachine(stage, disk);
    await (await open(stage.file)).close();
    await disk.sync();
    const logs = new Logs(stage);
    const producer = startRole(stage, ROLES[0]!, 1, false, "relaxed");
    await until("many tasks were acknowledged", () => logs.bytes > 20_000);
    await machine.cut([producer]);
    const entries = logs.readNew();
    const losses = await findLosses(await machine.inspect(), entries);
    expect(losses.length).toBeGreaterThan(0);
  });
});
