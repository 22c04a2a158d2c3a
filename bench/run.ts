import { mkdirSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { percentile, type Scenario } from "./scenario.ts";
import { add } from "./scenarios/add.ts";
import { drain } from "./scenarios/drain.ts";
import { pickUp } from "./scenarios/pick-up.ts";
import { processes } from "./scenarios/processes.ts";
import { groundFor, type StoreName, STORES } from "./stores.ts";

const SCENARIOS: Scenario[] = [add, drain, processes, pickUp];

const USAGE = `npm run bench -- [--short] [--rounds N] [--only NAME] [--store sqlite|postgres] [--save]
  --short   a quick look: a twentieth of the work, one round
  --rounds  how often each scenario runs, interleaved; 5 unless set
  --only    scenarios whose name contains this
  --store   sqlite unless set; postgres starts a server of its own, with its defaults
  --save    write the figures to bench/results/`;

const { values } = parseArgs({
  options: {
    short: { type: "boolean", default: false },
    rounds: { type: "string", default: "5" },
    only: { type: "string", default: "" },
    store: { type: "string", default: "sqlite" },
    save: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

if (values.help) {
  console.log(USAGE);
  process.exit(0);
}

const chosen = SCENARIOS.filter((scenario) => scenario.name.includes(values.only));
if (chosen.length === 0) {
  console.error(
    `No scenario is called "${values.only}". There are: ${SCENARIOS.map(({ name }) => name).join(", ")}.`,
  );
  process.exit(2);
}

const store = values.store as StoreName;
if (!STORES.includes(store)) {
  console.error(`--store is one of ${STORES.join(", ")}; got "${values.store}".`);
  process.exit(2);
}

const rounds = values.short ? 1 : Number(values.rounds);
const figures = new Map<string, { scenario: Scenario; values: number[] }>();
const ground = await groundFor(store);
try {
  for (let round = 0; round < rounds; round++) {
    for (const scenario of chosen) await measure(scenario, values.short ? 0.05 : 1);
  }
} finally {
  await ground.end();
}
print();
if (values.save) save();

async function measure(scenario: Scenario, scale: number): Promise<void> {
  await ground.withFreshStore(async (storePath) => {
    const measured = await scenario.run({ storePath, scale });
    for (const [name, value] of Object.entries(measured)) {
      const key = `${scenario.name}: ${name}`;
      const row = figures.get(key) ?? { scenario, values: [] };
      row.values.push(value);
      figures.set(key, row);
    }
  });
}

function print(): void {
  console.log(
    `\n${store}: median of ${rounds} (least … most), Node ${process.version}, ${cpus().length} cores, full sync\n`,
  );
  for (const [name, { scenario, values: measured }] of figures) {
    const [median, least, most] = [
      percentile(measured, 0.5),
      Math.min(...measured),
      Math.max(...measured),
    ].map(round);
    console.log(`${name.padEnd(48)} ${median!.padStart(10)} ${scenario.unit}   (${least} … ${most})`);
  }
}

function save(): void {
  const folder = join(import.meta.dirname, "results");
  mkdirSync(folder, { recursive: true });
  const rows = [...figures].map(([name, { scenario, values: measured }]) => ({
    name,
    unit: scenario.unit,
    median: percentile(measured, 0.5),
    values: measured,
  }));
  const day = new Date().toISOString().slice(0, 10);
  const file = join(folder, store === "sqlite" ? `${day}.json` : `${day}-${store}.json`);
  writeFileSync(
    file,
    `${JSON.stringify({ day, store, node: process.version, cores: cpus().length, rounds, rows }, null, 2)}\n`,
  );
  console.log(`\nkept in ${file}`);
}

function round(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(2);
}
