// A real Chromium for the dashboard's tests and screenshots: Debian's package, which root's tests install.

import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { type Browser, chromium } from "playwright-core";
import { canInstall, installPackages } from "../run/debian-packages.ts";

const NAMES = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

function find(): string | undefined {
  const folders = (process.env["PATH"] ?? "").split(delimiter).concat("/usr/bin");
  const given = process.env["DIBS_CHROMIUM"];
  const paths = folders.flatMap((folder) => NAMES.map((name) => join(folder, name)));
  return [given, ...paths].find((path) => path !== undefined && existsSync(path));
}

/** Why there is no Chromium here; undefined if there is one. With CI set, there must be one. */
export async function whyNoChromium(): Promise<string | undefined> {
  if (find() === undefined && canInstall()) await installPackages("chromium", "fonts-inter");
  if (find() !== undefined) return undefined;
  const why =
    "Chromium is not installed (Debian: apt-get install --no-install-recommends chromium; root's tests do so. " +
    "DIBS_CHROMIUM may name another one)";
  if (process.env["CI"]) throw new Error(`${why}, and CI is set.`);
  return why;
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
