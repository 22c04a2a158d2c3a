import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { CONTENDERS } from "../../bench/contenders.ts";
import { median } from "../../bench/measure.ts";
import { plot } from "../../bench/plot.ts";
import { report } from "../../bench/report.ts";
import type { Results } from "../../bench/results.ts";
import { SCENARIOS } from "../../bench/scenarios/index.ts";
import { table } from "../../bench/table.ts";

const README = readFileSync(new URL("../../bench/README.md", import.meta.url), "utf8");

const results: Results = {
  day: "2026-01-02",
  node: "v24.0.0",
  cores: 2,
  contenders: [
    { name: "dibs", durability: "a power cut", synced: true },
    { name: "plainjob", durability: "a crash", synced: false },
    { name: "beanstalkd", durability: "nearly all", synced: false },
    { name: "NATS JetStream", durability: "a crash", synced: false },
  ],
  scenarios: [
    {
      name: "add",
      base: "dibs",
      about: "tasks",
      measuredAt: "2026-01-02",
      rounds: 2,
      figures: [
        {
          name: "one call a task",
          unit: "tasks/s",
          better: "more",
          contenders: [
            { name: "dibs", values: [3_000, 1_000] },
            { name: "plainjob", values: [500, 500] },
            // It failed in one of the rounds.
            { name: "beanstalkd", values: [4_000] },
          ],
        },
      ],
    },
    {
      name: "drain",
      base: "dibs",
      about: "tasks",
      measuredAt: "2026-01-02",
      rounds: 1,
      figures: [
        {
          name: "concurrency 1",
          unit: "tasks/s",
          better: "more",
          contenders: [
            { name: "dibs", values: [9] },
            { name: "NATS JetStream", values: [8] },
            { name: "plainjob", values: [1] },
            { name: "beanstalkd", values: [2] },
          ],
        },
      ],
    },
    {
      name: "add",
      base: "dibs on PostgreSQL",
      about: "tasks",
      measuredAt: "2026-01-02",
      rounds: 1,
      figures: [
        {
          name: "one call a task",
          unit: "tasks/s",
          better: "more",
          contenders: [
            { name: "dibs on PostgreSQL", values: [300] },
            { name: "pg-boss", values: [100] },
          ],
        },
      ],
    },
    {
      name: "stampede",
      base: "dibs",
      about: "claims",
      measuredAt: "2026-01-02",
      rounds: 2,
      figures: [
        { name: "claims", unit: "claims", better: "less", contenders: [{ name: "dibs", values: [2, 2] }] },
      ],
    },
  ],
};

describe("median", () => {
  test.each([
    { values: [3, 1, 2], is: 2 },
    { values: [1, 2], is: 1.5 },
    { values: [9, 1, 3, 2], is: 2.5 },
    { values: [7], is: 7 },
  ])("the median of $values is $is", ({ values, is }) => {
    expect(median(values)).toBe(is);
  });
});

describe("output of figures", () => {
  test("the table shows rounds, spread, and how many times better dibs is", () => {
    expect(table(results)).toContain(
      "| add | one call a task | 2 | **2,000** tasks/s | 1,000 … 3,000 | " +
        "beanstalkd 4,000 (× 0.50, 1 of 2 rounds) · plainjob 500 (× 4.00) |",
    );
    expect(table(results)).toContain(
      "| add, dibs on PostgreSQL | one call a task | 1 | **300** tasks/s | 300 … 300 | pg-boss 100 (× 3.00) |",
    );
    expect(report(results)).toMatch(/pg-boss +100 .* dibs on PostgreSQL: × 3\.00/);
    expect(report(results)).toMatch(/dibs +2,000 tasks\/s {2}\(1,000 … 3,000\)\n.*plainjob .* dibs: × 4\.00/);
  });

  test("the table names contenders that could have taken part and did not", () => {
    expect(table(results)).toContain("- add: NATS JetStream\n");
    expect(table(results)).not.toContain("- stampede:");
    expect(table(results)).not.toContain("- add, dibs on PostgreSQL:");
  });

  test("the chart shows bars, the best at the top", () => {
    const names = [...plot(results).matchAll(/text-anchor="end">([^<]+)<\/text>/g)].map(([, name]) => name);
    expect(names.slice(1)).toEqual([
      ...["beanstalkd", "dibs", "plainjob"],
      ...["dibs", "NATS JetStream", "beanstalkd", "plainjob"],
      ...["dibs on PostgreSQL", "pg-boss"],
    ]);
  });
});

describe("the page about benchmarks", () => {
  test.each(SCENARIOS.map(({ name }) => name))(
    "the page about benchmarks describes the scenario %s",
    (name) => {
      expect(README).toContain(`\n| \`${name}\` |`);
    },
  );

  test.each(CONTENDERS.map(({ name }) => name))("the page about benchmarks says how %s is run", (name) => {
    expect(README).toContain(`\n| ${name} |`);
  });
});
