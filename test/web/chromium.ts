// A real Chromium for the dashboard's tests and screenshots: Debian's package, which root's tests install.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { userInfo } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { type Browser, chromium } from "playwright-core";

const run = promisify(execFile);
const NAMES = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

function find(): string | undefined {
  const folders = (process.env["PATH"] ?? "").split(delimiter).concat("/usr/bin");
  const given = process.env["DIBS_CHROMIUM"];
  const paths = folders.flatMap((folder) => NAMES.map((name) => join(folder, name)));
  return [given, ...paths].find((path) => path !== undefined && existsSync(path));
}

/** Why there is no Chromium here; undefined if there is one. With CI set, there must be one. */
export async function whyNoChromium(): Promise<string | undefined> {
  if (find() === undefined && userInfo().uid === 0 && existsSync("/usr/bin/apt-get")) await install();
  if (find() !== undefined) return undefined;
  const why =
    "Chromium is not installed (Debian: apt-get install --no-install-recommends chromium; root's tests do so. " +
    "DIBS_CHROMIUM may name another one)";
  if (process.env["CI"]) throw new Error(`${why}, and CI is set.`);
  return why;
}

/** The list of packages may be missing or out of date. Without the internet neither helps. */
async function install(): Promise<void> {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const get = (...args: string[]) => run("apt-get", args, { env });
  // Several test files may want it at the same moment: apt waits for its own lock.
  const fetch = () =>
    get(
      "-o",
      "DPkg::Lock::Timeout=300",
      "install",
      "-y",
      "--no-install-recommends",
      "chromium",
      "fonts-inter",
    );
  await fetch()
    .catch(async () => {
      await get("update");
      await fetch();
    })
    .catch(() => {});
}

/** Headless, with a fresh profile, and without requests of its own. */
export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: find()!,
    args: [
      ...["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"],
      ...["--disable-sync", "--no-first-run"],
    ],
  });
}
