import { expect, test } from "vitest";
import { readReport } from "../../src/pools/report.ts";

const NEUTRAL = {
  ...{ size: 0, reasons: [], workers: { live: 0, starting: 0, busy: 0 }, mode: "unknown", min: 0, max: 0 },
  ...{ stopTimeout: 0, launcher: null },
};

test.each([
  ...["null", "1", '"x"', "[]", "{}", '{"workers":null,"launcher":1,"reasons":{"length":9},"size":"9"}'],
  '{"workers":{"live":{"toString":1}},"launcher":{"pid":"1"},"reasons":[1,null],"mode":{"then":1},"min":1e999}',
])("a report that another client wrote as %s reads as a neutral one", (text) => {
  expect(readReport(text)).toEqual(NEUTRAL);
});

test("a pool's own report is read as it was written", () => {
  const report = {
    ...{
      size: 2,
      reasons: ["load"],
      workers: { live: 1, starting: 1, busy: 1 },
      mode: "worker",
      min: 1,
      max: 3,
    },
    ...{ stopTimeout: 30_000, launcher: { pid: 7, startedAt: "123" } },
  };
  expect(readReport(JSON.stringify(report))).toEqual(report);
});
