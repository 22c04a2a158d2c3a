// Debian packages that tests need: root's tests install them. Used for PgBouncer, Chromium and AMQP clients.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const LONGEST_WAIT_S = "300";

/** Whether this process may install packages, on a system that has apt. */
export function canInstall(): boolean {
  return userInfo().uid === 0 && existsSync("/usr/bin/apt-get");
}

/**
 * Installs packages if they can be had. The list of packages may be missing or out of date; without a network neither
 * helps. Several test files may install at the same moment, and apt fails if another one holds its locks: they wait.
 */
export async function installPackages(...packages: string[]): Promise<void> {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const lock = join(tmpdir(), "dibs-apt.lock");
  const get = (...args: string[]) =>
    run(
      "flock",
      ["-w", LONGEST_WAIT_S, lock, "apt-get", `-oDPkg::Lock::Timeout=${LONGEST_WAIT_S}`, ...args],
      {
        env,
      },
    );
  const fetch = () => get("install", "-y", "--no-install-recommends", ...packages);
  await fetch()
    .catch(async () => {
      await get("update");
      await fetch();
    })
    .catch(() => {});
}
