import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

const setupScript = fileURLToPath(new URL("../../scripts/setup.mjs", import.meta.url));

/** A fake npm: records that it ran, takes a moment, and installs a node. */
const fakeNpm = `
  import { appendFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
  appendFileSync("installs", process.argv[2] + "\\n");
  if (process.env.FAKE_NPM_FAILS) process.exit(42);
  rmSync("node_modules", { recursive: true, force: true });
  await new Promise((resolve) => setTimeout(resolve, 100));
  mkdirSync("node_modules/.bin", { recursive: true });
  writeFileSync("node_modules/.bin/node", "");
`;

function makeProject() {
  const root = mkdtempSync(join(tmpdir(), "dibs-setup-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  mkdirSync(join(root, "scripts"));
  cpSync(setupScript, join(root, "scripts/setup.mjs"));
  writeFileSync(join(root, "package.json"), `{ "type": "module" }`);
  writeFileSync(join(root, "package-lock.json"), `{ "packages": {} }`);
  writeFileSync(join(root, "npm-cli.js"), fakeNpm);
  const lockDir = join(root, ".setup-lock");

  return {
    root,
    lockDir,
    installs: () => readFileSync(join(root, "installs"), "utf8").trim().split("\n"),
    async setUp(args: string[] = [], env: NodeJS.ProcessEnv = {}) {
      const npm = { npm_execpath: join(root, "npm-cli.js"), npm_node_execpath: process.execPath };
      const child = spawn(process.execPath, ["scripts/setup.mjs", ...args], {
        cwd: root,
        env: { ...process.env, ...npm, ...env },
      });
      const [said, printed, [code]] = await Promise.all([
        text(child.stderr),
        text(child.stdout),
        once(child, "close") as Promise<[number | null]>,
      ]);
      return { code, said, printed };
    },
  };
}

test("setup installs once and is silent from then on", async () => {
  const project = makeProject();
  expect(await project.setUp()).toEqual({
    code: 0,
    said: "dibs: installing dependencies (npm ci)\n",
    printed: "",
  });
  expect(await project.setUp()).toEqual({ code: 0, said: "", printed: "" });
  expect(project.installs()).toEqual(["ci"]);
});

test("setup installs again when the lock file has changed", async () => {
  const project = makeProject();
  await project.setUp();
  writeFileSync(join(project.root, "package-lock.json"), `{ "packages": { "node_modules/a": {} } }`);
  await project.setUp();
  expect(project.installs()).toEqual(["ci", "ci"]);
});

test("setup leaves an up-to-date manual npm install alone", async () => {
  const project = makeProject();
  await project.setUp();
  const lock = `{ "packages": { "": {}, "node_modules/a": { "version": "1.0.0" } } }`;
  writeFileSync(join(project.root, "package-lock.json"), lock);
  writeFileSync(join(project.root, "node_modules/.package-lock.json"), lock);
  expect(await project.setUp()).toEqual({ code: 0, said: "", printed: "" });
  expect(project.installs()).toEqual(["ci"]);
});

test("of several setups at once one installs, and the others wait for it", async () => {
  const project = makeProject();
  // The lock of a dead process: they also compete for taking it over.
  mkdirSync(project.lockDir);
  const gone = spawn(process.execPath, ["-e", ""]);
  await once(gone, "close");
  writeFileSync(join(project.lockDir, "owner"), String(gone.pid));

  const ends = await Promise.all(Array.from({ length: 4 }, () => project.setUp()));
  expect(ends.map((end) => end.code)).toEqual([0, 0, 0, 0]);
  expect(project.installs()).toEqual(["ci"]);
  expect(existsSync(project.lockDir)).toBe(false);
});

test("a failed setup ends with npm's exit code and is retried", async () => {
  const project = makeProject();
  const failed = await project.setUp(["--", process.execPath, "-e", "console.log('ran')"], {
    FAKE_NPM_FAILS: "1",
  });
  expect(failed).toMatchObject({ code: 42, printed: "" });
  expect(existsSync(project.lockDir)).toBe(false);
  expect(await project.setUp()).toMatchObject({ code: 0 });
});

test("setup then runs the command, and exits with its code", async () => {
  const project = makeProject();
  const end = await project.setUp([
    "--",
    process.execPath,
    "-e",
    "console.log(process.argv[1]); process.exit(7)",
    "an argument",
  ]);
  expect(end).toMatchObject({ code: 7, printed: "an argument\n" });
});

test("setup passes a signal on to the command and waits for it", async () => {
  const project = makeProject();
  await project.setUp();
  const program = `
    process.on("SIGTERM", () => { console.log("cleaned up"); process.exit(3); });
    setInterval(() => {}, 1000);
    console.log("started");
  `;
  const child = spawn(process.execPath, ["scripts/setup.mjs", "--", process.execPath, "-e", program], {
    cwd: project.root,
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  child.stdout.once("data", () => child.kill("SIGTERM"));
  const [printed, [code]] = await Promise.all([text(child.stdout), once(child, "close")]);
  expect({ printed, code }).toEqual({ printed: "started\ncleaned up\n", code: 3 });
});
