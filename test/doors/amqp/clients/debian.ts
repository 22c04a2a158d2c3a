// Programs and modules of Debian that the tests need: root's tests install them, others say what is missing.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { promisify } from "node:util";
import { canInstall, installPackages } from "../../../run/debian-packages.ts";

const run = promisify(execFile);

/** Debian's Python: another one on PATH does not have the modules. */
export const PYTHON = "/usr/bin/python3";

const PACKAGES: Record<string, () => Promise<boolean>> = {
  "python3-pika": () => hasModule("pika"),
  "python3-kombu": () => hasModule("kombu"),
  "python3-celery": () => hasModule("celery"),
  "amqp-tools": async () => existsSync("/usr/bin/amqp-publish"),
};

/**
 * Why these packages are not available here; undefined if they are. With CI set, they must be available.
 */
export async function whyNo(...packages: string[]): Promise<string | undefined> {
  if ((await missing(packages)).length > 0 && canInstall()) await installPackages(...packages);
  const left = await missing(packages);
  if (left.length === 0) return undefined;
  const why = `Debian's ${left.join(" and ")} is not installed (apt-get install --no-install-recommends ${left.join(" ")}; root's tests do so)`;
  if (process.env["CI"]) throw new Error(`${why}, and CI is set.`);
  return why;
}

async function missing(packages: string[]): Promise<string[]> {
  const found = await Promise.all(packages.map((name) => PACKAGES[name]!()));
  return packages.filter((_, at) => !found[at]);
}

async function hasModule(name: string): Promise<boolean> {
  return run(PYTHON, ["-c", `import ${name}`]).then(
    () => true,
    () => false,
  );
}
