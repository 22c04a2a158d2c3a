// The simulation by hand. One seed, with every step:  npm run simulate -- --seed 123
// Many, in silence, until one fails:                  npm run simulate -- --seeds 100000 --from 1
// On PostgreSQL, started for it:                      npm run simulate -- --seed 123 --engine postgres

import { parseArgs } from "node:util";
import { PostgresServer, QUICK } from "../postgres/server.ts";
import { endSubjects } from "./postgres.ts";
import { simulate, SimulationFailure } from "./simulation.ts";
import { ENGINES, type EngineName } from "./subject.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    seeds: { type: "string" },
    from: { type: "string" },
    engine: { type: "string", default: "sqlite" },
  },
});

const engine = values.engine as EngineName;
if (!ENGINES.includes(engine)) throw new Error(`--engine must be one of ${ENGINES.join(", ")}`);
const server =
  engine === "postgres" && !process.env["DIBS_TEST_POSTGRES"]
    ? await PostgresServer.start({ settings: QUICK })
    : undefined;
if (server) process.env["DIBS_TEST_POSTGRES"] = server.url;

try {
  if (values.seed !== undefined) {
    await simulate({ seed: Number(values.seed), engine, trace: (line) => console.log(line) });
  } else await runMany(Number(values.from ?? 1), Number(values.seeds ?? 10_000));
} catch (error) {
  if (!(error instanceof SimulationFailure)) throw error;
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await endSubjects();
  await server?.remove();
}

async function runMany(from: number, count: number): Promise<void> {
  const started = performance.now();
  let operations = 0;
  for (let seed = from; seed < from + count; seed++) {
    operations += (await simulate({ seed, engine })).operations;
    if ((seed - from + 1) % (engine === "postgres" ? 50 : 1_000) === 0) report(seed - from + 1);
  }
  report(count);

  function report(done: number): void {
    const seconds = (performance.now() - started) / 1_000;
    console.log(`${done} seeds, ${operations} operations, ${(done / seconds).toFixed(0)} seeds/s`);
  }
}
