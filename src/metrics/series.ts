/**
 * Counters, gauges and histograms for Prometheus that are cheap to write: each task causes about seven writes, and a
 * general library took a sixth of the server's time for them. They are formatted on each scrape.
 */
type Labels<Label extends string> = Record<Label, string>;

/** A value for each set of labels. */
class Series<Label extends string, Figure> {
  readonly name: string;
  readonly #help: string;
  readonly #type: string;
  readonly #labelNames: readonly Label[];
  readonly #make: () => Figure;
  readonly #figures = new Map<string, { labels: string[]; figure: Figure }>();

  constructor(name: string, help: string, type: string, labelNames: readonly Label[], make: () => Figure) {
    this.name = name;
    this.#help = help;
    this.#type = type;
    this.#labelNames = labelNames;
    this.#make = make;
    if (labelNames.length === 0) this.at({} as Labels<Label>);
  }

  at(labels: Labels<Label>): Figure {
    let key = "";
    for (const name of this.#labelNames) key = key === "" ? labels[name] : `${key}\n${labels[name]}`;
    let found = this.#figures.get(key);
    if (!found) {
      const words = this.#labelNames.map((name) => `${name}=${JSON.stringify(labels[name])}`);
      this.#figures.set(key, (found = { labels: words, figure: this.#make() }));
    }
    return found.figure;
  }

  clear(): void {
    this.#figures.clear();
  }

  /** In the text format of Prometheus. `linesOf` a value: name suffix, its own labels, and number. */
  toText(linesOf: (figure: Figure) => Iterable<[suffix: string, labels: string[], value: number]>): string {
    const lines = [`# HELP ${this.name} ${this.#help}`, `# TYPE ${this.name} ${this.#type}`];
    for (const { labels, figure } of this.#figures.values()) {
      for (const [suffix, own, value] of linesOf(figure)) {
        const all = [...own, ...labels].join(",");
        lines.push(`${this.name}${suffix}${all === "" ? "" : `{${all}}`} ${value}`);
      }
    }
    return `${lines.join("\n")}\n`;
  }
}

export class Counter<Label extends string> {
  readonly #series: Series<Label, { count: number }>;

  constructor(name: string, help: string, labelNames: readonly Label[]) {
    this.#series = new Series(name, help, "counter", labelNames, () => ({ count: 0 }));
  }

  inc(labels: Labels<Label>, by = 1): void {
    this.#series.at(labels).count += by;
  }

  /** The count of one set of labels, for a caller that counts often: the labels are looked up once. */
  of(labels: Labels<Label>): { count: number } {
    return this.#series.at(labels);
  }

  toText(): string {
    return this.#series.toText(({ count }) => [["", [], count]]);
  }
}

/** A current value. */
export class Gauge<Label extends string> {
  readonly #series: Series<Label, { value: number }>;

  constructor(name: string, help: string, labelNames: readonly Label[]) {
    this.#series = new Series(name, help, "gauge", labelNames, () => ({ value: 0 }));
  }

  set(labels: Labels<Label>, value: number): void {
    this.#series.at(labels).value = value;
  }

  /** Removes all values, because their subjects may be gone. */
  reset(): void {
    this.#series.clear();
  }

  toText(): string {
    return this.#series.toText(({ value }) => [["", [], value]]);
  }
}

export interface Spread {
  /** By bucket; the last one is for values above all bounds. */
  counts: number[];
  sum: number;
}

export class Histogram<Label extends string> {
  readonly #series: Series<Label, Spread>;
  readonly #bounds: readonly number[];

  constructor(name: string, help: string, labelNames: readonly Label[], bounds: readonly number[]) {
    this.#bounds = bounds;
    const make = (): Spread => ({ counts: Array.from({ length: bounds.length + 1 }, () => 0), sum: 0 });
    this.#series = new Series(name, help, "histogram", labelNames, make);
  }

  observe(labels: Labels<Label>, value: number): void {
    this.add(this.#series.at(labels), value);
  }

  /** The values of one set of labels, for `add`. */
  of(labels: Labels<Label>): Spread {
    return this.#series.at(labels);
  }

  add(spread: Spread, value: number): void {
    let bucket = 0;
    while (bucket < this.#bounds.length && value > this.#bounds[bucket]!) bucket++;
    spread.counts[bucket]!++;
    spread.sum += value;
  }

  toText(): string {
    return this.#series.toText(({ counts, sum }) => {
      let count = 0;
      const buckets = [...this.#bounds, "+Inf"].map((bound, bucket): [string, string[], number] => {
        count += counts[bucket]!;
        return ["_bucket", [`le="${bound}"`], count];
      });
      return [...buckets, ["_sum", [], sum], ["_count", [], count]];
    });
  }
}
