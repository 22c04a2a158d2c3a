import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Before all tests: a folder in which the first test that needs PostgreSQL starts it (shared.ts). After them: stops it.
 */
export default function setUp(): () => Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "dibs-test-postgres-"));
  // The server runs as another user, who must be able to reach its own folder inside.
  chmodSync(folder, 0o711);
  process.env["DIBS_TEST_POSTGRES_FOLDER"] = folder;
  return async () => {
    const pid = readPid(join(folder, "server", "data", "postmaster.pid"));
    if (pid !== undefined) await stop(pid);
    rmSync(folder, { recursive: true, force: true });
  };
}

function readPid(file: string): number | undefined {
  return existsSync(file) ? Number(readFileSync(file, "utf8").split("\n")[0]) : undefined;
}

async function stop(pid: number): Promise<void> {
  try {
    // "Immediate": its data is not needed again.
    process.kill(pid, "SIGQUIT");
    for (let waited = 0; waited < 10_000; waited += 20) {
      process.kill(pid, 0);
      await sleep(20);
    }
  } catch (error) {
    if ((error as { code?: string }).code !== "ESRCH") throw error;
  }
}
