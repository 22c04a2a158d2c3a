import { spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { addMarks, type Reached, type TestsByFile } from "./reach.ts";
import { stagesOf } from "./stages.ts";
import { LEFT_OUT, type Tests } from "./tests.ts";

export interface Verdict {
  /** `hung`: the time limit came first, which may be the machine's fault. `types`: only the compiler noticed. */
  fate: "caught" | "hung" | "types" | "survived";
  /** The test that failed, or how else it was noticed. */
  by: string;
  seconds: number;
}

const NOT_COPIED = new Set([".git", "node_modules", "dist"]);

/** A copy of the tree, in which sources are changed and tests run. */
export class Copy {
  readonly #folder = mkdtempSync(join(tmpdir(), "dibs-mutation-"));
  readonly #tree = join(this.#folder, "tree");
  #running: number | undefined;

  constructor(root: string) {
    cpSync(root, this.#tree, { recursive: true, filter: (path) => !NOT_COPIED.has(basename(path)) });
    symlinkSync(join(root, "node_modules"), join(this.#tree, "node_modules"));
    // What tests leave behind when they are killed goes with the copy.
    mkdirSync(join(this.#folder, "tmp"));
  }

  remove(): void {
    if (this.#running !== undefined) kill(this.#running);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  write(file: string, source: string): void {
    writeFileSync(join(this.#tree, file), source);
  }

  /** Runs all tests, which must pass, on sources that tell what they execute. */
  async record(paths: string[], sources: Map<string, string>): Promise<Reached[]> {
    const target = join(this.#folder, "reached.jsonl");
    writeFileSync(target, "");
    for (const [file, source] of sources) this.write(file, addMarks(file, source));
    const { failure } = await this.#vitest([...new Set(paths)], [], { DIBS_REACH_RECORD: target });
    for (const [file, source] of sources) this.write(file, source);
    if (failure !== undefined) throw new Error(`The tests fail without any mutant: ${failure}`);
    const lines = readFileSync(target, "utf8").trim().split("\n");
    return lines.map((line) => JSON.parse(line) as Reached);
  }

  /** Runs the tests that may notice the mutant that is in the tree now. */
  async test(
    mutated: string,
    reached: TestsByFile | undefined,
    tests: Tests,
    limit: number,
  ): Promise<Verdict> {
    const began = performance.now();
    const verdict = (fate: Verdict["fate"], by: string): Verdict => ({
      fate,
      by,
      seconds: (performance.now() - began) / 1_000,
    });
    for (const { paths, names } of stagesOf(mutated, reached, tests)) {
      const left = limit - (performance.now() - began);
      const pattern = names && `^(?:${names.map((name) => RegExp.escape(name)).join("|")})$`;
      const { failure, isLate } = await this.#vitest(
        paths,
        pattern ? ["-t", pattern] : [],
        { DIBS_MUTATED: mutated },
        left,
      );
      if (isLate) return verdict("hung", paths.join(" "));
      if (failure !== undefined) return verdict("caught", failure);
    }
    const typeErrors = await this.#run(
      ["typescript", "bin/tsc"],
      ["--noEmit", "--noUnusedLocals", "false", "--noUnusedParameters", "false"],
    );
    if (typeErrors.code !== 0) return verdict("types", /error.*/.exec(typeErrors.output)?.[0] ?? "");
    return verdict("survived", reached?.size === 0 ? "no recorded test executes it" : "");
  }

  async #vitest(
    paths: string[],
    options: string[],
    env: Record<string, string>,
    limit?: number,
  ): Promise<{ failure?: string; isLate?: boolean }> {
    const args = ["run", "--config", "test/mutation/vitest.config.ts", "--bail=1"];
    const leftOut = LEFT_OUT.files.flatMap((file) => ["--exclude", file]);
    const names = options.length > 0 ? options : ["-t", `^(?!.*${LEFT_OUT.names.source})`];
    const { code, output } = await this.#run(
      ["vitest", "vitest.mjs"],
      [...args, ...leftOut, ...names, ...paths],
      env,
      limit,
    );
    if (code === 0 && !/Tests .*\d+ passed/.test(output)) throw new Error(`No test ran:\n${output}`);
    if (code === 0) return {};
    return { failure: /^\s*FAIL\s+(.*)/m.exec(output)?.[1] ?? output.slice(-500), isLate: code === "late" };
  }

  async #run(
    [name, file]: [string, string],
    args: string[],
    env: Record<string, string> = {},
    limit?: number,
  ): Promise<{ code: number | "late"; output: string }> {
    const child = spawn(process.execPath, [join(this.#tree, "node_modules", name, file), ...args], {
      cwd: this.#tree,
      env: { ...process.env, NO_COLOR: "1", TMPDIR: join(this.#folder, "tmp"), ...env },
      stdio: ["ignore", "pipe", "pipe"],
      // With the processes that it starts, it is a group that is killed as one.
      detached: true,
    });
    this.#running = child.pid!;
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk) => (output += String(chunk)));
    let late = false;
    const timer = limit && setTimeout(() => ((late = true), kill(child.pid!)), limit);
    const code = await new Promise<number>((resolve) => child.on("close", (status) => resolve(status ?? 1)));
    clearTimeout(timer);
    this.#running = undefined;
    return { code: late ? "late" : code, output };
  }
}

function kill(group: number): void {
  try {
    process.kill(-group, "SIGKILL");
  } catch (error) {
    if ((error as { code?: string }).code !== "ESRCH") throw error;
  }
}
