// Celery as its users run it: a worker process with the AMQP door as its broker, and results over it too.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { PYTHON, whyNo } from "./debian.ts";
import { Running } from "./program.ts";
import { type Served, serveAmqp, STORES } from "./served.ts";

const PROGRAMS = join(import.meta.dirname, "programs");
const missing = await whyNo("python3-celery");

function startWorker({ url }: Served, folder: string, name: string): Running {
  const args = ["worker", "--pool=prefork", "--concurrency=2", `--hostname=${name}@here`, "--loglevel=INFO"];
  return new Running(
    PYTHON,
    ["-u", "-m", "celery", "-A", "celery_app", ...args, "--without-gossip", "--without-mingle"],
    celeryEnv(url, folder),
  );
}

function celeryEnv(url: string, folder: string): NodeJS.ProcessEnv {
  return {
    BROKER_URL: url,
    FOLDER: folder,
    PYTHONPATH: PROGRAMS,
    PYTHONDONTWRITEBYTECODE: "1",
    C_FORCE_ROOT: "1",
  };
}

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "dibs-celery-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

describe.skipIf(missing).each(STORES)(`Celery on %s${missing ? ` (skipped: ${missing})` : ""}`, (store) => {
  test("results, retries, ETA, groups and chords", async () => {
    const served = await serveAmqp(store);
    const folder = makeFolder();
    const worker = startWorker(served, folder, "first");
    await worker.says(/ ready\./);
    const tour = new Running(PYTHON, ["-u", join(PROGRAMS, "celery_tour.py")], celeryEnv(served.url, folder));
    expect((await tour.finished()).at(-1)).toBe("all good");
    await worker.kill("SIGTERM");
  });

  test("a killed worker's task with acks_late is done by another worker", async () => {
    const served = await serveAmqp(store);
    const folder = makeFolder();
    const victim = startWorker(served, folder, "victim");
    await victim.says(/ ready\./);
    const ask = new Running(PYTHON, ["-u", join(PROGRAMS, "celery_late.py")], celeryEnv(served.url, folder));
    await victim.says(/started by/);
    await victim.killAll();
    const heir = startWorker(served, folder, "heir");
    await heir.says(/ ready\./);
    expect(await ask.finished()).toContain("done");
    await heir.kill("SIGTERM");
  });
});
