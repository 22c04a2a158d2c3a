import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { open } from "../../src/index.ts";
import { type AlertOptions, CALM, nextState, parseAlerts } from "../../src/pools/alert-rules.ts";
import { ManualClock } from "../../src/testing/index.ts";

describe("when an alert is raised and cleared", () => {
  const [rule] = parseAlerts({ rules: [{ queue: "q", when: "depth", above: 100, for: "10s" }] }).rules;

  function statesOf(values: [second: number, depth: number][]): boolean[] {
    let state = CALM;
    return values.map(([second, depth]) => {
      state = nextState(state, depth, rule!, second * 1_000);
      return state.raised;
    });
  }

  test("an alert is raised when its value was above the limit for its time", () => {
    expect(
      statesOf([
        [0, 101],
        [5, 200],
        [9, 150],
        [10, 101],
      ]),
    ).toEqual([false, false, false, true]);
  });

  test("a value that returns in time raises nothing", () => {
    expect(
      statesOf([
        [0, 101],
        [5, 100],
        [12, 101],
        [21, 101],
      ]),
    ).toEqual([false, false, false, false]);
  });

  test("an alert is cleared at a lower value, and only after its time", () => {
    const raised: [number, number][] = [
      [0, 101],
      [10, 101],
    ];
    // Between 80 and 100 it stays as it is.
    expect(statesOf([...raised, [20, 99], [40, 81]]).at(-1)).toBe(true);
    expect(statesOf([...raised, [20, 80], [29, 80]]).at(-1)).toBe(true);
    expect(statesOf([...raised, [20, 80], [30, 80]]).at(-1)).toBe(false);
  });
});

test.each([
  [{ rules: [] }, "1 to 100 rules"],
  [{ rules: [{ queue: "q", when: "age" }] }, "when must be one of depth, oldestAge"],
  [{ rules: [{ queue: "q", when: "depth" }] }, "needs above"],
  [{ rules: [{ queue: "q", when: "depth", above: 10, clear: 11 }] }, "clear must not be above"],
  [{ rules: [{ queue: "q", when: "oldestAge", above: "long" }] }, "above must be a duration"],
  [{ rules: [{ queue: "q", when: "noWorkers" }], webhook: "here" }, "webhook must be an address"],
])("alerts %j are refused", (options, problem) => {
  expect(() => parseAlerts(options as unknown as AlertOptions)).toThrow(problem);
});

interface Sent {
  state: string;
  alert: string;
  queue: string;
  text: string;
}

async function makeWebhook(): Promise<{ webhook: string; sent: Sent[] }> {
  const sent: Sent[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (part: Buffer) => (body += part.toString()));
    request.on("end", () => {
      sent.push(JSON.parse(body) as Sent);
      response.end();
    });
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  return { webhook: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, sent };
}

describe("alerts of a store", () => {
  test("each change is sent once, to the webhook and the log, and stored", async () => {
    const logged: string[] = [];
    const logger = { warn: (message: string) => void logged.push(message), error() {} };
    await using dibs = await open(":memory:", { logger });
    const queue = dibs.queue("emails");
    const { webhook, sent } = await makeWebhook();
    await queue.addMany([1, 2, 3].map((data) => ({ data })));
    const alerts = dibs.alerts({ rules: [{ queue: "*", when: "depth", above: 2 }], every: 20, webhook });
    await expect.poll(() => sent).toHaveLength(1);
    expect(sent[0]).toEqual({
      state: "raised",
      alert: "depth",
      queue: "emails",
      text: "3 tasks wait, more than 2.",
    });
    await queue.add(4);
    await queue.purge();
    await expect.poll(() => sent).toHaveLength(2);
    expect(sent[1]).toMatchObject({ state: "cleared", alert: "depth" });
    await alerts.stop();
    expect(logged).toEqual([
      "Alert raised: emails: 3 tasks wait, more than 2.",
      "Alert cleared: emails: The number of waiting tasks is back to normal.",
    ]);
    const stored = await dibs.port.decisions("alerts", "alerts", 10);
    expect(stored.map(({ type }) => type)).toEqual(["alert.cleared", "alert.raised"]);
  });

  test("one of two processes evaluates, and its successor does not repeat what is raised", async () => {
    await using dibs = await open(":memory:");
    const first = await makeWebhook();
    const second = await makeWebhook();
    await dibs.queue("emails").add(1);
    const rules = [{ queue: "emails", when: "noWorkers", for: 0 } as const];
    const one = dibs.alerts({ rules, every: 20, webhook: first.webhook });
    await expect.poll(() => first.sent).toHaveLength(1);
    const two = dibs.alerts({ rules, every: 20, webhook: second.webhook });
    await one.stop();
    await dibs.queue("emails").purge();
    await expect.poll(() => second.sent).toHaveLength(1);
    expect(second.sent[0]).toMatchObject({ state: "cleared", alert: "noWorkers" });
    await two.stop();
    expect(first.sent).toHaveLength(1);
  });

  test("growing dead letters, new failures, failing attempts and idle workers are noticed", async () => {
    const clock = new ManualClock();
    await using dibs = await open(":memory:", { clock });
    const queue = dibs.queue("emails", { maxAttempts: 1 });
    const { webhook, sent } = await makeWebhook();
    await queue.add(0);
    const kinds = ["deadLetters", "newFailure", "failureRate", "idleWorkers", "oldestAge"] as const;
    const limits = {
      oldestAge: { above: "5s" },
      idleWorkers: { for: "1s" },
      failureRate: { for: "1s" },
    } as const;
    const rules = kinds.map((when) => ({
      queue: "emails",
      when,
      ...(limits as Record<string, object>)[when],
    }));
    const alerts = dibs.alerts({ rules, every: "1s", webhook });
    const raised = () => sent.filter(({ state }) => state === "raised").map(({ alert }) => alert);
    const pass = async () => {
      await clock.advance(1_000);
      return raised();
    };
    await expect.poll(pass).toEqual(["oldestAge"]);
    const [claim] = await queue.claim();
    await claim!.nack(new Error("the mail server is gone"));
    await expect
      .poll(async () => (await pass()).toSorted())
      .toEqual(["oldestAge", "deadLetters", "newFailure", "failureRate"].toSorted());
    expect(sent.find(({ alert }) => alert === "newFailure")!.text).toContain("the mail server is gone");
    const workers = [1, 2, 3].map(() => queue.work(() => {}));
    await Promise.all(workers.map((worker) => worker.ready));
    await expect.poll(async () => (await pass()).includes("idleWorkers")).toBe(true);
    await alerts.stop();
  });
});
