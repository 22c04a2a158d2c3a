// Runs the installed package on Node versions that are too old for it, through every entry point.

import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The newest refused version, and one on which better-sqlite3 crashes the process that loads it. */
export const OLD_NODES = ["22.13.1", "20.19.6"];

/** Installs that Node from npm and returns its path. */
export function installNode(
  version: string,
  folder: string,
  npm: (cwd: string, args: string[]) => void,
): string {
  const home = join(folder, `node-${version}`);
  mkdirSync(home);
  writeFileSync(join(home, "package.json"), JSON.stringify({ private: true }));
  const { platform, arch } = process;
  const name = `${platform === "darwin" && arch === "arm64" ? "node-bin" : "node"}-${platform}-${arch}`;
  npm(home, ["install", "--no-audit", "--no-fund", `${name}@${version}`]);
  return join(home, "node_modules", name, "bin/node");
}

/** Prints the code of the error with which an import, or a thread, fails. */
const IMPORT = (file: string): string =>
  `import(${JSON.stringify(file)}).then(() => console.log("loaded"), ({ code, message }) => console.log(code, message))`;
const THREAD = (file: string): string =>
  `new (require("node:worker_threads").Worker)(${JSON.stringify(file)})` +
  `.on("error", ({ code, message }) => console.log(code, message)).on("online", () => {})`;

/** Every entry point reports clearly, with the code UNSUPPORTED, that this Node is too old. */
export function checkRefusals(node: string, version: string, project: string): void {
  const dist = join(project, "node_modules/dibs/dist");
  const sentence = `dibs needs Node 22.14.0 or newer; this is ${version}. Update Node.\n`;
  const entries: [string[], Partial<ReturnType<typeof run>>][] = [
    [["-e", IMPORT("dibs")], { status: 0, stdout: `UNSUPPORTED ${sentence}` }],
    [["-e", IMPORT("dibs/dashboard")], { status: 0, stdout: `UNSUPPORTED ${sentence}` }],
    [["-e", IMPORT("dibs/testing")], { status: 0, stdout: `UNSUPPORTED ${sentence}` }],
    [["-e", THREAD(join(dist, "dibs-thread.js"))], { stdout: `UNSUPPORTED ${sentence}` }],
    [["-e", THREAD(join(dist, "dibs-heartbeat-thread.js"))], { stdout: `UNSUPPORTED ${sentence}` }],
    ...[["--version"], ["queues"], ["serve"]].map((args): [string[], Partial<ReturnType<typeof run>>] => [
      [join(dist, "cli/main.js"), ...args],
      { status: 1, stdout: "", stderr: `dibs: ${sentence}` },
    ]),
  ];
  for (const [args, expected] of entries) {
    const ended = run(node, args, project);
    for (const [name, value] of Object.entries(expected)) {
      if (ended[name as keyof typeof ended] !== value)
        throw new Error(`node ${args.join(" ")} under Node ${version} ended with ${JSON.stringify(ended)}`);
    }
  }
}

function run(node: string, args: string[], cwd: string) {
  const { status, signal, stdout, stderr } = spawnSync(node, args, {
    cwd,
    encoding: "utf8",
    timeout: 60_000,
  });
  return { status, signal, stdout, stderr };
}
