// Makes sure that what package-lock.json names is installed. Every npm script runs it first, so that a fresh
// clone needs no other command. It is plain JavaScript without dependencies because it runs before anything
// is installed, on whatever Node is there. What follows `--` is the command to run then, found on the PATH, where
// npm puts node_modules/.bin first: `node` is now the one installed. In the shell's `setup && command` a SIGTERM
// to npm would leave the command running.
//
// `npm ci` empties node_modules, so two of them at once destroy each other: a lock directory lets one work
// and the others wait. It lies beside node_modules, not inside, for the same reason.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const lockFile = join(root, "package-lock.json");
const modules = join(root, "node_modules");
const stampFile = join(modules, ".dibs-setup");
const lockDir = join(root, ".setup-lock");
const ownerFile = join(lockDir, "owner");
const takeoverDir = join(lockDir, "takeover");

const pollMs = 200;
/** No install takes this long: a lock this old was left by a process whose id another process has now. */
const staleMs = 15 * 60_000;
/** A lock whose owner is not written after this long never will have one. */
const ownerlessMs = 10_000;

/**
 * The signal that asked this process to stop.
 * @type {NodeJS.Signals | undefined}
 */
let stopped;

/** Ends the script with a sentence for the reader and an exit code for the shell. */
class Refusal extends Error {
  /**
   * @param {string} message
   * @param {number} exitCode
   */
  constructor(message, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

try {
  if (!isInstalled()) await setUp();
  const [separator, command, ...args] = process.argv.slice(2);
  if (separator === "--" && command !== undefined) {
    const { code } = await run(command, args, "inherit");
    process.exitCode = code;
  }
} catch (error) {
  if (!(error instanceof Refusal)) throw error;
  say(error.message);
  process.exitCode = error.exitCode;
}

async function setUp() {
  await acquireLock();
  try {
    // The process that held the lock before may have done the work.
    if (isInstalled()) return;
    if (!npmInstalledTheSame()) await install();
    requireNode();
    writeFileSync(stampFile, wanted());
  } finally {
    rmSync(lockDir, { recursive: true, force: true, maxRetries: 5 });
  }
}

function isInstalled() {
  return read(stampFile) === wanted();
}

/** What the stamp says when this lock file is installed for this machine. */
function wanted() {
  const hash = createHash("sha256").update(readFileSync(lockFile)).digest("hex");
  return `${process.platform}-${process.arch} ${hash}\n`;
}

/**
 * True after a manual `npm install`, which npm records in its own lock file when it has finished. Without this check,
 * the next script would empty node_modules while programs run from it.
 */
function npmInstalledTheSame() {
  const note = read(join(modules, ".package-lock.json"));
  if (note === undefined || !existsSync(join(modules, ".bin", "node"))) return false;
  /** @typedef {{ version?: string, integrity?: string, optional?: boolean }} Entry */
  /** @type {Record<string, Entry>} */
  const have = JSON.parse(note).packages;
  /** @type {Record<string, Entry>} */
  const want = JSON.parse(readFileSync(lockFile, "utf8")).packages;
  const extra = Object.keys(have).some((path) => !(path in want));
  const missing = Object.entries(want).some(([path, entry]) => {
    if (path === "") return false; // the project itself
    const found = have[path];
    if (found === undefined) return entry.optional !== true; // made for another platform
    return found.version !== entry.version || found.integrity !== entry.integrity;
  });
  return !extra && !missing;
}

async function install() {
  say("installing dependencies (npm ci)");
  rmSync(stampFile, { force: true });
  const [command, ...prefix] = npmCommand();
  // The engine warnings of an older Node are silenced with the log level: node@24 is among what is installed.
  // NODE_ENV=production must not leave out the tools.
  const args = [...prefix, "ci", "--include=dev", "--no-audit", "--no-fund", "--loglevel=error"];
  const end = await run(command, args, ["ignore", "ignore", "inherit"]);
  if (end.code !== 0) {
    throw new Refusal(`npm ci ended with ${end.signal ?? `exit code ${end.code}`}`, end.code);
  }
  // npm may still finish, depending on what it was doing when the signal came.
  if (stopped !== undefined) throw new Refusal(`stopped by ${stopped}`, exitCodeOf(stopped));
}

/**
 * Runs a command to its end. A signal sent to this process alone is passed on. Ctrl-C on a terminal is not, because the
 * terminal has already sent it to the command, and a second one may mean "at once, without cleaning up".
 * @param {string} command
 * @param {string[]} args
 * @param {import("node:child_process").StdioOptions} stdio
 * @returns {Promise<{ code: number, signal: NodeJS.Signals | null }>} the code as a shell gives it
 */
async function run(command, args, stdio) {
  const child = spawn(command, args, { cwd: root, stdio, shell: process.platform === "win32" });
  /** @param {NodeJS.Signals} signal */
  const passOn = (signal) => {
    stopped = signal;
    if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal);
  };
  /** @type {NodeJS.Signals[]} */
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
  for (const signal of signals) process.on(signal, passOn);
  // npm sends its SIGTERM to the shell between it and this process, and the shell ends without passing it on.
  const parent = process.ppid;
  const watch = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(watch);
    passOn("SIGTERM");
  }, pollMs);
  try {
    return await new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code, signal) => {
        resolve({ code: code ?? exitCodeOf(signal ?? "SIGTERM"), signal });
      });
    });
  } finally {
    clearInterval(watch);
    for (const signal of signals) process.off(signal, passOn);
  }
}

/** @param {NodeJS.Signals} signal */
function exitCodeOf(signal) {
  return 128 + constants.signals[signal];
}

/**
 * The npm that runs this script, on the Node that it runs on: the one in node_modules is about to be removed.
 * @returns {[string, ...string[]]}
 */
function npmCommand() {
  const { npm_execpath: npm, npm_node_execpath: node } = process.env;
  return npm?.endsWith("npm-cli.js") && node !== undefined ? [node, npm] : ["npm"];
}

/** The next command of an npm script is `node something.ts`: explain here why that would fail. */
function requireNode() {
  if (existsSync(join(modules, ".bin", "node"))) return;
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major > 22 || (major === 22 && minor >= 18)) return; // runs TypeScript itself
  throw new Refusal(
    `this is Node ${process.versions.node}, the sources need 22.18, and the one that comes with the ` +
      "dependencies was not set up. Does npm's configuration say ignore-scripts?",
  );
}

async function acquireLock() {
  const started = Date.now();
  let waiting = false;
  while (!tryLock()) {
    if (!waiting) say("another process is installing dependencies, waiting for it");
    waiting = true;
    if (Date.now() - started > staleMs) {
      throw new Refusal(`still locked: if nothing is installing, remove ${lockDir}`);
    }
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
}

/** @returns {boolean} whether this process now holds the lock */
function tryLock() {
  try {
    mkdirSync(lockDir);
  } catch (error) {
    if (!isCode(error, "EEXIST")) throw error;
    return takeOver(read(ownerFile));
  }
  writeFileSync(ownerFile, String(process.pid));
  return true;
}

/**
 * Takes over a lock that its owner left. Of several processes that saw the same dead owner, the one that makes the inner
 * directory continues, and only while the owner is still the same.
 * @param {string | undefined} owner
 */
function takeOver(owner) {
  if (!isStale(owner)) return false;
  try {
    mkdirSync(takeoverDir);
  } catch {
    return false;
  }
  try {
    if (read(ownerFile) !== owner) return false;
    writeFileSync(ownerFile, String(process.pid));
    return true;
  } finally {
    rmSync(takeoverDir, { recursive: true, force: true });
  }
}

/** @param {string | undefined} owner */
function isStale(owner) {
  const age = Date.now() - (statSync(lockDir, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
  if (owner === undefined || owner === "") return age > ownerlessMs;
  return age > staleMs || !isRunning(Number(owner));
}

/** @param {number} pid */
function isRunning(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !isCode(error, "ESRCH");
  }
}

/** @param {string} file */
function read(file) {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if (isCode(error, "ENOENT") || isCode(error, "ENOTDIR")) return undefined;
    throw error;
  }
}

/**
 * @param {unknown} error
 * @param {string} code
 */
function isCode(error, code) {
  return error instanceof Error && "code" in error && error.code === code;
}

/** @param {string} text */
function say(text) {
  process.stderr.write(`dibs: ${text}\n`);
}
