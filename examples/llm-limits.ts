// A provider of language models limits requests and tokens per second. Twenty workers in four processes respect both
// limits. The workers do not know each other: the queue counts.

import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { defineQueue, open, Retry } from "../src/index.ts";

const REQUESTS = 20;
const TOKENS = 4_000;
/** What the provider really allows. A request takes a moment to arrive, so the queue stays a little below that. */
const ALLOWED = { requests: 26, tokens: 5_200 };

const questions = defineQueue<Question, string>("questions", {
  rateLimit: [
    { max: REQUESTS, per: "1s", pace: true },
    { max: TOKENS, per: "1s", pace: true, unit: "tokens" },
  ],
});

interface Question {
  text: string;
  tokens: number;
}

const [role = "main", address = "", url = ""] = process.argv.slice(2);
if (role === "worker") await work(address, url);
else await main(role === "main" ? undefined : role);

async function work(store: string, provider: string): Promise<void> {
  const dibs = await open(store);
  dibs.queue(questions).work(
    async (task) => {
      const body = JSON.stringify(task.data);
      const answer = await fetch(provider, { method: "POST", body, signal: task.signal });
      // Other requests would be refused too: none is sent before then, and no attempt is used up.
      if (answer.status === 429)
        throw new Retry("the provider is busy", {
          delay: 1_000 * Number(answer.headers.get("retry-after") ?? 1),
          key: true,
        });
      const { text, used } = (await answer.json()) as { text: string; used: number };
      // An answer that is shorter than reserved leaves more tokens for other tasks.
      task.spend(used);
      return text;
    },
    { concurrency: 5 },
  );
  process.once("SIGTERM", () => void dibs.close().then(() => process.disconnect()));
}

/** Refuses requests above its limits within any second. */
function startProvider(): {
  listen: () => Promise<string>;
  close: () => void;
  peaks: typeof ALLOWED;
  refused: () => number;
} {
  let recent: { at: number; tokens: number }[] = [];
  let refused = 0;
  const peaks = { requests: 0, tokens: 0 };
  const server = createServer((request, response) => void answer(request, response));
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { text, tokens } = JSON.parse(Buffer.concat(await request.toArray()).toString()) as Question;
    const at = performance.now();
    recent = [...recent.filter((each) => each.at > at - 1_000), { at, tokens }];
    const sum = recent.reduce((total, each) => total + each.tokens, 0);
    if (recent.length > ALLOWED.requests || sum > ALLOWED.tokens) {
      refused++;
      recent.pop();
      response.writeHead(429, { "retry-after": "1" }).end();
      return;
    }
    peaks.requests = Math.max(peaks.requests, recent.length);
    peaks.tokens = Math.max(peaks.tokens, sum);
    await sleep(50);
    response.end(JSON.stringify({ text: text.toUpperCase(), used: Math.round(tokens * 0.9) }));
  };
  return {
    listen: async () => {
      await once(server.listen(0, "127.0.0.1"), "listening");
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    },
    close: () => server.close().closeAllConnections(),
    peaks,
    refused: () => refused,
  };
}

async function main(given: string | undefined): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "dibs-llm-"));
  const store = given ?? join(folder, "work.db");
  const provider = startProvider();
  const dibs = await open(store);
  const queue = dibs.queue(questions);
  const url = await provider.listen();
  const workers = Array.from({ length: 4 }, () => fork(import.meta.filename, ["worker", store, url]));
  try {
    const asked = Array.from({ length: 60 }, (_, i) => ({
      text: `question ${i}`,
      tokens: 100 + (i % 5) * 50,
    }));
    const tasks = await queue.addMany(asked.map((data) => ({ data, cost: data.tokens })));
    const answers = await Promise.all(tasks.map((task) => task.result({ timeout: "50s" })));
    assert.deepEqual(
      answers,
      asked.map(({ text }) => text.toUpperCase()),
    );
    const histories = await Promise.all(tasks.map((task) => task.history()));
    assert.ok(histories.every((attempts) => attempts.at(-1)!.attempt === 1));
    const { requests, tokens } = provider.peaks;
    assert.ok(requests <= ALLOWED.requests && tokens <= ALLOWED.tokens);
    console.log(
      `60 answers by ${new Set(histories.map((attempts) => attempts.at(-1)!.worker)).size} workers`,
    );
    console.log(
      `at most ${requests} requests and ${tokens} tokens within a second; ${provider.refused()} were too many`,
    );
  } finally {
    for (const worker of workers) worker.kill("SIGTERM");
    for (const worker of workers) if (worker.exitCode === null) await once(worker, "exit");
    provider.close();
    await dibs.close();
    rmSync(folder, { recursive: true });
  }
}
