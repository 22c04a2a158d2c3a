import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { EXIT } from "../../src/cli/exit.ts";
import type { Measurements } from "../../src/pools/measurements.ts";
import { dibs, dibsJson, makeFolder } from "./run-dibs.ts";

test("dibs simulate prints and draws a policy, next to another one", async () => {
  const folder = makeFolder();
  const load = ["simulate", "--load", "burst", "--rate", "0.5", "--burst", "50", "--service", "2s"];
  const args = [...load, "--compare", "mode=cost,batch=20,max-age=5m", "--price", "2", "--svg", "a.svg"];
  const { code, stdout, stderr } = await dibs(folder, args);
  expect({ code, stderr }).toEqual({ code: EXIT.done, stderr: "The picture is in a.svg.\n" });
  expect(stdout).toMatch(/^POLICY +TASKS +LEFT +WORKER-HOURS +COST +BUSY/m);
  expect(stdout).toMatch(/^mode=cost,batch=20,max-age=5m/m);
  expect(stdout).toMatch(/^latency .*[▁▂▃▄▅▆▇█]/m);
  const svg = readFileSync(join(folder, "a.svg"), "utf8");
  expect(svg).toMatch(/^<svg /);
  expect(svg.match(/<path class="line run1"/g)).toHaveLength(3);
  // Both got the same tasks.
  expect(svg.match(/<path class="line shared"/g)).toHaveLength(1);
  expect(svg).not.toContain("NaN");
});

test("dibs simulate --json prints the scenario, the policy and what was measured", async () => {
  const printed = (await dibsJson(makeFolder(), "simulate", "--rate", "2", "--max", "7", "--seed", "3")) as {
    scenario: object;
    runs: (Measurements & { name: string; policy: object })[];
  };
  expect(printed.scenario).toMatchObject({
    load: { kind: "constant", rate: 2 },
    seed: 3,
    duration: 3_600_000,
  });
  const [run] = printed.runs;
  expect(Object.keys(run!)).toEqual(["name", "policy", "summary", "points", "decisions"]);
  expect(run).toMatchObject({ name: "latency", policy: { max: 7, targetWait: 5_000 } });
  expect(run!.summary.added).toBeGreaterThan(6_000);
  expect(run!.decisions[0]!.reasons.length).toBeGreaterThan(0);
});

test("dibs simulate takes recorded rates, from a file or a pipe", async () => {
  const folder = makeFolder();
  const lines = ["0:1", "600000:4", "1200000:0"].map((each) => each.split(":"));
  const text = lines.map(([at, rate]) => `{"at":${at},"rate":${rate}}\n`).join("");
  writeFileSync(join(folder, "rates"), text);
  const fromFile = await dibs(folder, ["simulate", "--rates", "rates", "--json"]);
  const fromPipe = await dibs(folder, ["simulate", "--rates", "-", "--json"], { input: text });
  expect(fromPipe).toEqual(fromFile);
  expect(JSON.parse(fromFile.stdout)).toMatchObject({ scenario: { duration: 1_200_000 } });
});

test.each([
  [["--compare", "mod=cost"], 'Did you mean "mode"?'],
  [["--compare", "max=many"], "It must be a whole number."],
  [["--min", "5", "--max", "2"], "min must not be above max"],
  [["--rates", "missing"], "There is no file"],
  [["--rates", "."], "cannot be read (EISDIR)"],
  [["--load", "weekly"], "It must be one of constant, square, daily, burst."],
  [["--duration", "0s"], "--duration must be at least 1ms; got 0 ms."],
  [["--max-attempts", "0"], "--max-attempts must be at least 1; got 0."],
  [["--load", "square", "--low", "5", "--high", "1"], "--low (5) must not be above --high (1)."],
  [["--load", "square", "--rates", "pipe"], "--rates gives the arrivals. Leave out --load."],
  [["--rate", "1000", "--duration", "3650d"], "may have 315,360,000,000 tasks"],
  [["--svg", "missing/a.svg"], 'cannot be written to "missing/a.svg" (ENOENT)'],
  [["--window", "late"], "window must be one span of hours"],
])("dibs simulate refuses %j and says what is possible", async (flags, problem) => {
  const { code, stdout, stderr } = await dibs(makeFolder(), ["simulate", ...flags]);
  expect({ code, stdout }).toEqual({ code: EXIT.usage, stdout: "" });
  expect(stderr).toContain(problem);
});
