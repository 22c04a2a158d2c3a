// Runs every recipe of the guide to bundlers and frameworks, as it is written there, with the real tools. A code block
// that begins with a comment such as `// app.ts` is a file; a block of `sh` is a command.

import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const GUIDE = new URL("../../docs/guides/bundlers-and-frameworks.md", import.meta.url);
const SENT = "sent to ada@example.com";
/** Of a tool that compiles on a busy machine. */
const ANSWER_MS = 120_000;

/** By itself. Next.js and Nest end as the signal asks when they have cleaned up. */
const ENDS = new Set<unknown>([0, 143, "SIGTERM"]);

type Step = <Result>(name: string, work: () => Result | Promise<Result>) => Promise<Result>;

/** Installs the tools once, with dibs as it is published, and runs the recipes in folders of that project. */
export async function runRecipes(folder: string, tarball: string, step: Step): Promise<void> {
  const home = join(folder, "recipes");
  await step("install the tools of the recipes", () => {
    cpSync(fileURLToPath(new URL("recipes", import.meta.url)), home, { recursive: true });
    // `npm ci` refuses lock files that lack optional packages for other platforms.
    execute(home, `npm install --no-save --no-audit --no-fund --ignore-scripts ${tarball}`);
  });
  for (const [title, recipe] of readGuide()) {
    const run = CHECKS[title];
    if (!run) throw new Error(`test/package/recipes.ts has no check for "${title}" of the guide`);
    // esbuild's recipe names node_modules, which is here.
    const place = title === "esbuild" ? home : join(home, title.toLowerCase().replace(".js", ""));
    for (const [name, text] of recipe.files) write(join(place, name), text);
    await step(`recipe: ${title}`, () => run({ folder, home, place, commands: recipe.commands }));
  }
}

interface Recipe {
  files: Map<string, string>;
  commands: string[];
}

/** The sections that have files, by title. */
function readGuide(): Map<string, Recipe> {
  const recipes = new Map<string, Recipe>();
  for (const section of readFileSync(GUIDE, "utf8").split(/^## /m).slice(1)) {
    const title = section.slice(0, section.indexOf("\n"));
    const recipe: Recipe = { files: new Map(), commands: [] };
    for (const [, language, text] of section.matchAll(/^```(\w+)(?: recipe)?\n([^]*?)^```$/gm)) {
      const name = /^\/\/ ([\w./-]+)\n/.exec(text!)?.[1];
      if (language === "sh") recipe.commands.push(text!.trim());
      else if (name) recipe.files.set(name, text!);
    }
    if (recipe.commands.length > 0 || recipe.files.size > 1 || title in CHECKS) recipes.set(title, recipe);
  }
  return recipes;
}

interface Place {
  /** Without node_modules. */
  folder: string;
  home: string;
  place: string;
  commands: string[];
}

const CHECKS: Record<string, (at: Place) => void | Promise<void>> = {
  "One store per process": ({ place }) => {
    write(join(place, "main.ts"), `import { jobs } from "./jobs.ts"; await jobs.queue("q").add(1);`);
    execute(place, "node main.ts");
  },
  esbuild: ({ folder, place, commands }) => {
    const [leavesOut, bundles] = commands as [string, string];
    execute(place, leavesOut);
    equal(execute(place, "node out/app.mjs"), SENT);
    execute(place, bundles);
    equal(execute(place, "node whole/app.js"), SENT);
    const elsewhere = join(folder, "elsewhere");
    write(join(elsewhere, "package.json"), `{"type":"module"}`);
    cpSync(join(place, "node_modules/better-sqlite3"), join(elsewhere, "node_modules/better-sqlite3"), {
      recursive: true,
    });
    cpSync(join(place, "whole"), elsewhere, { recursive: true });
    equal(execute(elsewhere, "node app.js"), SENT);
    // The bundle alone has lost its thread, in both formats. With the package it finds it there.
    execute(place, "esbuild app.ts --bundle --platform=node --format=esm --outfile=out/all.mjs");
    execute(
      place,
      `echo 'import("dibs").then(({ open }) => open("work.db")).catch(({ code, message }) => console.log(code, message))' > lost.js`,
    );
    execute(place, "esbuild lost.js --bundle --platform=node --format=cjs --outfile=out/lost.cjs");
    equal(execute(place, "node out/all.mjs"), SENT);
    const alone = join(folder, "alone");
    cpSync(join(place, "out/lost.cjs"), join(alone, "lost.cjs"));
    const said = execute(alone, "node lost.cjs");
    if (!said.startsWith("UNSUPPORTED dibs does not find its file dibs-thread.js"))
      throw new Error(`a bundle without its thread said: ${said}`);
  },
  Vite: ({ home, place, commands }) => {
    cpSync(join(home, "app.ts"), join(place, "app.ts"));
    execute(place, commands[0]!);
    equal(execute(place, "node out/app.js"), SENT);
  },
  "Next.js": async ({ place, commands }) => {
    execute(place, commands[0]!);
    await withServer(place, (port) => `next start --hostname 127.0.0.1 --port ${port}`, send);
    await withServer(
      place,
      (port) => `next dev --hostname 127.0.0.1 --port ${port}`,
      async (url, said) => {
        await send(url);
        // A hot reload: modules are loaded again in the same process.
        for (const name of ["jobs.js", "workers.js", "app/send/route.js"])
          write(join(place, name), `${readFileSync(join(place, name), "utf8")}\n// changed\n`);
        for (let round = 0; round < 3; round++) await send(url);
        if (said().includes("open in this process already")) throw new Error(said());
      },
    );
  },
  Jest: ({ place, commands }) => void execute(place, commands[0]!),
  Vitest: ({ place, commands }) => void execute(place, commands[0]!),
  Express: ({ place }) => checkServer(place, "node server.mjs"),
  Hono: ({ place }) => checkServer(place, "node server.mjs"),
  Nest: async ({ place }) => {
    write(join(place, "tsconfig.json"), `{"compilerOptions":{"experimentalDecorators":true}}`);
    execute(
      place,
      "esbuild main.ts --bundle --platform=node --format=esm --packages=external --outfile=main.mjs",
    );
    await withServer(place, () => "node main.mjs", send);
    // A worker that has not left would be listed until its lease ends.
    const count = `import { open } from "dibs"; const dibs = await open(process.env.STORE);
      console.log((await dibs.workers()).length); await dibs.close();`;
    write(join(place, "count.mjs"), count);
    equal(execute(place, "node count.mjs"), "0");
  },
  OpenTelemetry: ({ place }) => {
    const said = execute(place, "node traced.mjs");
    for (const text of ["send emails", "process emails", `"messaging.system.name": "dibs"`, "links: ["])
      if (!said.includes(text.replaceAll('"', "'"))) throw new Error(`no ${text} in: ${said}`);
  },
};

/** The app and the mounted dashboard answer, and the program ends by itself when it is asked to. */
async function checkServer(place: string, command: string): Promise<void> {
  await withServer(
    place,
    () => command,
    async (url) => {
      await send(url);
      const page = await fetch(`${url}/queues/`, { headers: { "x-user": "ada" } });
      if (!(await page.text()).includes("<title>")) throw new Error(`no page: ${page.status}`);
      equal(String((await fetch(`${url}/queues/`)).status), "401");
    },
  );
}

async function send(url: string): Promise<void> {
  const answer = await fetch(`${url}/send`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ to: "ada@example.com" }),
  });
  equal(await answer.text(), JSON.stringify({ result: SENT }));
}

async function withServer(
  place: string,
  command: (port: number) => string,
  use: (url: string, said: () => string) => Promise<void>,
): Promise<void> {
  const port = await freePort();
  const [program, ...args] = command(port).split(" ") as [string, ...string[]];
  let said = "";
  const child = spawn(program, args, { cwd: place, env: { ...ENV(place), PORT: `${port}` } });
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (said += text));
  const exited = new Promise<number | string | null>((resolve) => {
    child.once("exit", (code, signal) => resolve(code ?? signal));
  });
  try {
    await untilOpen(
      port,
      () => said,
      () => child.exitCode,
    );
    await use(`http://127.0.0.1:${port}`, () => said);
    child.kill("SIGTERM");
    const ended = await Promise.race([exited, sleep(ANSWER_MS, "still running", { ref: false })]);
    if (!ENDS.has(ended)) throw new Error(`it ended with ${ended}`);
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${command(port)} said:\n${said}`, { cause: error });
  } finally {
    child.kill("SIGKILL");
  }
}

async function untilOpen(port: number, said: () => string, exitCode: () => number | null): Promise<void> {
  for (const until = performance.now() + ANSWER_MS; ; await sleep(50)) {
    const answer = await fetch(`http://127.0.0.1:${port}/nothing-here`).catch(() => undefined);
    if (answer) return void (await answer.arrayBuffer());
    if (exitCode() !== null || performance.now() > until) throw new Error(`it does not listen:\n${said()}`);
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** `npx` would look for each tool again; the tools are on the path. */
function execute(cwd: string, command: string): string {
  mkdirSync(cwd, { recursive: true });
  const line = command.replaceAll(/\bnpx /g, "");
  try {
    const options = { cwd, env: ENV(cwd), encoding: "utf8", timeout: 300_000, stdio: "pipe" } as const;
    return execFileSync("bash", ["-c", line], options).trim();
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
    throw new Error(`${stdout}${stderr}\n${line} failed in ${cwd}`, { cause: error });
  }
}

/** The tools of the recipes, and the Node that runs this. */
function ENV(cwd: string): NodeJS.ProcessEnv {
  const path = [dirname(process.execPath), join(cwd, "node_modules/.bin"), join(cwd, "../node_modules/.bin")];
  return {
    ...process.env,
    PATH: `${path.join(":")}:${process.env["PATH"]}`,
    STORE: join(cwd, "work.db"),
    NEXT_TELEMETRY_DISABLED: "1",
  };
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

function equal(said: string, expected: string): void {
  if (said !== expected) throw new Error(`expected ${expected}, and got ${said}`);
}
