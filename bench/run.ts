import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Contender } from "./contender.ts";
import { DIBS, OURS, PEERS } from "./contenders.ts";
import { draw } from "./draw.ts";
import { Helper } from "./helper.ts";
import type { MeasurementTask } from "./measurement.ts";
import { installPackages } from "./peers/packages.ts";
import { stopAll } from "./peers/server.ts";
import { report } from "./report.ts";
import { Gathering, latest, save } from "./results.ts";
import { canRun, type Figure, type Scenario } from "./scenario.ts";
import { SCENARIOS } from "./scenarios/index.ts";

const USAGE = `npm run bench -- [--only NAME,…] [--peers none|all|NAME,…] [--dibs ${Object.keys(DIBS).join("|")}] [--rounds N] [--short] [--long] [--save]
  --only    scenarios: ${SCENARIOS.map(({ name }) => name).join(", ")}
  --peers   peers to compare with: ${Object.keys(PEERS).join(", ")}; default: none
  --dibs    which dibs they are compared with; default: on a file
  --rounds  how often each is measured, interleaved; default: 5
  --short   a quick check with tiny counts and one round; its figures mean nothing
  --long    also scenarios that take many minutes: 10 million tasks
  --save    store the figures in bench/results/, and draw them`;

const values = readOptions();
const { short, long } = values;

if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
if (short && values.save) refuse("The figures of --short mean nothing: --save cannot be combined with it.");
const rounds = Number(values.rounds ?? (short ? 1 : 5));
if (!Number.isInteger(rounds) || rounds < 1) refuse("--rounds takes a whole number above 0.");
const scenarios = choose(
  values.only,
  SCENARIOS.map((scenario) => [scenario.name, [scenario]]),
);
const base =
  DIBS[values.dibs] ?? refuse(`There is no dibs "${values.dibs}": ${Object.keys(DIBS).join(", ")}.`);
const alone = scenarios.filter(({ needs }) => needs === "dibs");
if (values.only !== undefined && values.dibs !== "file" && alone.length > 0)
  refuse(`${alone.map(({ name }) => name).join(", ")}: opens what it needs and takes no --dibs.`);
const contenders = [...new Set([base, ...choosePeers(values.peers)])];

/** A lost task must not stop the benchmark: a measurement that takes longer is killed. */
const limitMs = (long ? 90 : 15) * 60_000;

/** Everything that the benchmark writes to disk. */
const root = mkdtempSync(join(tmpdir(), "dibs-bench-"));
const cache = join(root, "cache");
mkdirSync(cache);
process.on("exit", () => {
  stopAll();
  // Processes that were interrupted may still be writing.
  rmSync(root, { recursive: true, force: true, maxRetries: 5 });
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));

const gathering = new Gathering(rounds, base.name);
for (let round = 0; round < rounds; round++) {
  for (const scenario of scenarios) {
    for (const contender of contenders) {
      if (canRun(scenario, contender)) await measure(scenario, contender, round);
    }
  }
}
console.log(report(gathering.results));
if (short)
  console.log(
    "\nThis was a short run: the counts were tiny, whatever the names say, and the figures mean nothing.",
  );
if (values.save && process.exitCode === 1) console.error("dibs failed: nothing is kept.");
else if (values.save) {
  save(gathering.results);
  draw(latest()!);
}
process.exit();

/** A peer that fails is reported and left out; dibs must not fail. */
async function measure(scenario: Scenario, contender: Contender, round: number): Promise<void> {
  const folder = mkdtempSync(join(root, "run-"));
  console.error(`round ${round + 1} of ${rounds}: ${scenario.name}, ${contender.name}`);
  try {
    gathering.take(scenario, contender, await runApart(scenario, contender, folder));
  } catch (error) {
    console.error(`${scenario.name}, ${contender.name}: ${(error as Error).message}`);
    if (OURS.includes(contender)) process.exitCode = 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function runApart(scenario: Scenario, contender: Contender, folder: string): Promise<Figure[]> {
  const service = await contender.serve(folder);
  try {
    const task: MeasurementTask = {
      scenario: scenario.name,
      contender: contender.name,
      settings: { address: service.address, group: service.group, folder, cache, short, long },
    };
    await using measurement = await Helper.start(new URL("measurement.ts", import.meta.url), task);
    const limit = setTimeout(() => void measurement.kill(), limitMs);
    try {
      return await measurement.next<Figure[]>();
    } finally {
      clearTimeout(limit);
    }
  } finally {
    await service.stop();
  }
}

function choosePeers(asked: string): Contender[] {
  if (asked === "none") {
    console.error("dibs alone; --peers all compares it with others");
    return [];
  }
  const chosen = choose(asked === "all" ? undefined : asked, Object.entries(PEERS));
  if (chosen.some((peer) => !OURS.includes(peer))) installPackages();
  return chosen.filter((peer) => {
    const missing = peer.missing();
    if (missing !== undefined) console.error(`${peer.name} is left out: ${missing}`);
    return missing === undefined;
  });
}

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        only: { type: "string" },
        peers: { type: "string", default: "none" },
        dibs: { type: "string", default: "file" },
        rounds: { type: "string" },
        short: { type: "boolean", default: false },
        long: { type: "boolean", default: false },
        save: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    });
    return values;
  } catch (error) {
    return refuse(`${(error as Error).message}\n\n${USAGE}`);
  }
}

/** Unknown names are refused, so that a typing error does not look like a result. */
function choose<T>(asked: string | undefined, known: readonly (readonly [string, readonly T[]])[]): T[] {
  if (asked === undefined) return known.flatMap(([, things]) => things);
  const names = asked.split(",");
  const unknown = names.filter((name) => !known.some(([known]) => known === name));
  if (unknown.length > 0) refuse(`There is no "${unknown.join('", "')}".\n\n${USAGE}`);
  return known.filter(([name]) => names.includes(name)).flatMap(([, things]) => things);
}

function refuse(why: string): never {
  console.error(why);
  process.exit(2);
}
