import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { open } from "../../src/index.ts";
import { resolveConfig } from "../../src/server/config.ts";
import { serve } from "../../src/server/serve.ts";

function makeFile(content: string): string {
  const folder = mkdtempSync(join(tmpdir(), "dibs-alerts-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "alerts.json");
  writeFileSync(file, content);
  return file;
}

function configOf(alerts: string) {
  return resolveConfig({ url: ":memory:", port: "0", logLevel: "silent", alerts }, {}).config;
}

test("a server evaluates the alerts of its file", async () => {
  const sent: string[] = [];
  const receiver = createServer((request, response) => {
    request.on("data", (part: Buffer) => sent.push(part.toString()));
    request.on("end", () => response.end());
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void receiver.close());
  await once(receiver, "listening");
  const webhook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const rules = [{ queue: "*", when: "depth", above: 0 }];
  const serving = await serve(configOf(makeFile(JSON.stringify({ rules, webhook, every: 20 }))));
  onTestFinished(() => serving.stop());
  await using dibs = await open(serving.url);
  await dibs.queue("emails").add(1);
  await expect
    .poll(() => sent.map((each) => (JSON.parse(each) as { state: string }).state))
    .toEqual(["raised"]);
  const answer = (await (await fetch(`${serving.url}/v1/alerts/alerts/decisions`)).json()) as object;
  expect(answer).toMatchObject({ decisions: [{ type: "alert.raised", queue: "emails" }] });
});

test.each([
  ["{", "The file of --alerts cannot be used"],
  ['{"rules":[]}', "1 to 100 rules"],
])("a server does not start with the alerts %j", async (content, problem) => {
  await expect(serve(configOf(makeFile(content)))).rejects.toThrow(problem);
});
