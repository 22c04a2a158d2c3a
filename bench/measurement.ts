// One scenario with one contender, once, in its own process, so that no measurement inherits the heap of another.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { findContender } from "./contenders.ts";
import { helperTask, say } from "./helper.ts";
import { Bench, type BenchSettings, type Figure } from "./scenario.ts";
import { findScenario } from "./scenarios/index.ts";

export interface MeasurementTask {
  scenario: string;
  contender: string;
  settings: BenchSettings;
}

if (import.meta.main) {
  const { scenario: name, contender, settings } = helperTask() as MeasurementTask;
  say("ready");
  const scenario = findScenario(name);
  if (scenario.warmUp === true && !settings.short) {
    const folder = join(settings.folder, "warm-up");
    mkdirSync(folder);
    await measure({ ...settings, folder, warmUp: true });
  }
  say(await measure(settings));
  // Some clients keep a timer or a socket open. All results have been sent.
  process.disconnect();

  async function measure(settings: BenchSettings): Promise<Figure[]> {
    const bench = new Bench(findContender(contender), settings, name);
    try {
      return await scenario.run(bench);
    } finally {
      await bench.close();
    }
  }
}
