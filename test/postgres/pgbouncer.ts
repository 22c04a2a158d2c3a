import { execFile, spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { canInstall, installPackages } from "../run/debian-packages.ts";
import { asUser, freePort } from "./server.ts";

const run = promisify(execFile);
const START_MS = 20_000;

/** The number of connections to the server, however many clients there are. */
export const POOL = 3;

/** Debian puts servers outside the users' PATH. */
function find(): string | undefined {
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin", "/usr/local/sbin"];
  return folders.map((folder) => join(folder, "pgbouncer")).find((path) => existsSync(path));
}

/**
 * Why PgBouncer is not available here; undefined if it is. It comes from Debian's package, which root may install. With
 * CI set, it must be available.
 */
export async function whyNoPgBouncer(): Promise<string | undefined> {
  if (!find() && canInstall()) await install();
  if (find()) return undefined;
  const why =
    "PgBouncer is not installed (Debian: apt-get install --no-install-recommends pgbouncer; root's tests do so)";
  if (process.env["CI"]) throw new Error(`${why}, and CI is set.`);
  return why;
}

async function install(): Promise<void> {
  await installPackages("pgbouncer");
  // The package starts its own instance, which is not needed here.
  await run("service", ["pgbouncer", "stop"]).catch(() => {});
}

/**
 * Starts PgBouncer in front of a server, in transaction mode unless another is given. Returns the address through it.
 */
export async function startPgBouncer(
  target: string,
  cleanUp: (undo: () => Promise<void>) => void,
  { mode = "transaction", size = POOL }: { mode?: "transaction" | "session"; size?: number } = {},
): Promise<string> {
  const { port: targetPort } = new URL(target);
  const folder = mkdtempSync(join(tmpdir(), "dibs-pgbouncer-"));
  const port = await freePort();
  const settings = join(folder, "pgbouncer.ini");
  const log = join(folder, "log");
  writeFileSync(
    settings,
    `[databases]
* = host=127.0.0.1 port=${targetPort} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
default_pool_size = ${size}
max_client_conn = 200
server_login_retry = 0.2
logfile = ${log}
`,
  );
  const { uid, gid } = asUser();
  if (uid !== undefined && gid !== undefined) chownSync(folder, uid, gid);
  const child = spawn(find()!, ["-q", settings], { ...asUser(), stdio: "ignore" });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  process.once("exit", () => child.kill("SIGKILL"));
  cleanUp(async () => {
    child.kill("SIGKILL");
    await exited;
    rmSync(folder, { recursive: true, force: true });
  });
  for (const until = performance.now() + START_MS; !(await accepts(port)); await sleep(20)) {
    if (child.exitCode !== null || performance.now() > until)
      throw new Error(`PgBouncer did not start:\n${existsSync(log) ? readFileSync(log, "utf8") : ""}`);
  }
  const pooled = new URL(target);
  pooled.port = `${port}`;
  return pooled.href;
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
