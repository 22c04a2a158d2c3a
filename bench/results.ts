import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import type { Contender } from "./contender.ts";
import type { Figure, Scenario } from "./scenario.ts";
import { titleOf } from "./words.ts";

/** The stored figures of a day. All contenders of a scenario were measured in one interleaved benchmark. */
export interface Results {
  day: string;
  node: string;
  cores: number;
  /** The durability of each. */
  contenders: Pick<Contender, "name" | "durability" | "synced">[];
  scenarios: ScenarioResult[];
}

export interface ScenarioResult {
  name: string;
  /** The dibs that the peers are compared with. */
  base: string;
  about: string;
  measuredAt: string;
  rounds: number;
  figures: FigureResult[];
}

export interface FigureResult extends Omit<Figure, "value"> {
  /** The values of the rounds, in their order. */
  contenders: { name: string; values: number[] }[];
}

const FOLDER = join(import.meta.dirname, "results");

/** Collects the figures of the rounds. */
export class Gathering {
  readonly #results: Results;
  readonly #rounds: number;
  readonly #base: string;

  constructor(rounds: number, base: string) {
    this.#rounds = rounds;
    this.#base = base;
    this.#results = {
      day: new Date().toISOString().slice(0, 10),
      node: process.version,
      cores: cpus().length,
      contenders: [],
      scenarios: [],
    };
  }

  get results(): Results {
    return this.#results;
  }

  take(scenario: Scenario, contender: Contender, figures: Figure[]): void {
    const { name, durability, synced } = contender;
    findOrAdd(this.#results.contenders, name, () => ({ name, durability, synced }));
    const scenarioResult = findOrAdd(this.#results.scenarios, scenario.name, () => ({
      name: scenario.name,
      base: this.#base,
      about: scenario.about,
      measuredAt: new Date().toISOString(),
      rounds: this.#rounds,
      figures: [],
    }));
    for (const { name, unit, better, value } of figures) {
      const figure = findOrAdd(scenarioResult.figures, name, () => ({ name, unit, better, contenders: [] }));
      const entry = findOrAdd(figure.contenders, contender.name, () => ({
        name: contender.name,
        values: [],
      }));
      entry.values.push(value);
    }
  }
}

/** Stores the figures. Figures of earlier that day stay, except for scenarios that were measured again with the same dibs. */
export function save(results: Results): string {
  mkdirSync(FOLDER, { recursive: true });
  const file = join(FOLDER, `${results.day}.json`);
  writeFileSync(file, `${JSON.stringify(withEarlier(file, results), null, 2)}\n`);
  return file;
}

export function load(file: string): Results {
  return JSON.parse(readFileSync(file, "utf8")) as Results;
}

/** Each scenario as it was last measured. */
export function latest(): Results | undefined {
  const files = existsSync(FOLDER) ? readdirSync(FOLDER) : [];
  const days = files.filter((name) => /^\d{4}-\d\d-\d\d\.json$/.test(name)).sort();
  if (days.length === 0) return undefined;
  const results = days.map((name) => load(join(FOLDER, name))).reduce(over);
  const [first, ...others] = results.scenarios.map(({ measuredAt }) => measuredAt.slice(0, 10)).sort();
  const last = others.at(-1) ?? first;
  return { ...results, day: first === last ? first! : `${first} to ${last}` };
}

function withEarlier(file: string, results: Results): Results {
  return existsSync(file) ? over(load(file), results) : results;
}

/** New figures replace the old ones of the same scenario. */
function over(earlier: Results, results: Results): Results {
  const nameOf = ({ name, base }: ScenarioResult): string => titleOf(name, base);
  const again = new Map(results.scenarios.map((scenario) => [nameOf(scenario), scenario]));
  const kept = earlier.scenarios.map((scenario) => again.get(nameOf(scenario)) ?? scenario);
  return {
    ...results,
    contenders: [
      ...new Map([...earlier.contenders, ...results.contenders].map((each) => [each.name, each])).values(),
    ],
    scenarios: [...new Set([...kept, ...results.scenarios])],
  };
}

function findOrAdd<T extends { name: string }>(list: T[], name: string, make: () => T): T {
  let found = list.find((each) => each.name === name);
  if (found === undefined) list.push((found = make()));
  return found;
}
