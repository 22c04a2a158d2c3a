import { type ChildProcess, fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Random } from "../simulation/random.ts";
import { type Canaries, Watch } from "./canaries.ts";
import { fuzzBytes, fuzzRequests } from "./http.ts";
import { fuzzFrames, fuzzMessages } from "./native.ts";

/** Where the attacked server has its store; `schema` for PostgreSQL. Without an address it is its own file. */
export interface Store {
  url?: string;
  schema?: string;
}

/** The start parameters of target.ts. */
export interface Asked extends Store {
  url: string;
  folder: string;
}

interface Attacker {
  name: string;
  token: string;
  isLimited: boolean;
}

export interface Started {
  url: string;
  attackers: Attacker[];
  canaries: Canaries;
}

export interface Told {
  clients: number;
  /** What the server logged as its own failure. */
  failures: string[];
  peakRss: number;
}

/** An attacker, and what it knows. */
export interface Attack {
  url: string;
  random: Random;
  token: string;
  canaries: Canaries;
  watch: () => Watch;
}

export interface Found {
  inputs: number;
  byKind: Record<Kind, number>;
  /** The peak memory of the server. */
  peakRss: number;
}

/** Inputs per round, by kind: separate connections take longest. */
const ROUND = { requests: 400, messages: 400, bytes: 60, frames: 60 } as const;
export type Kind = keyof typeof ROUND;
const FUZZERS: Record<Kind, (attack: Attack, count: number) => Promise<number>> = {
  ...{ requests: fuzzRequests, messages: fuzzMessages, bytes: fuzzBytes, frames: fuzzFrames },
};
const WEIGHTS: Record<Kind, number> = { requests: 10, messages: 12, bytes: 2, frames: 1 };
const MOST_RSS = 500 * 2 ** 20;
const NO_CANARIES: Canaries = { queue: "work", ids: ["01980000-0000-7000-8000-000000000000"] };

/**
 * A server in its own process, and its attackers. Each round has a seed and can be repeated separately. Fails with the
 * seed of a round in which the server crashed, logged a failure, gave a wrong answer, revealed a canary to a client
 * that may not see it, failed a call of the well-behaved client, or used too much memory.
 */
export class Fuzz {
  readonly found: Found = {
    ...{ inputs: 0, peakRss: 0, byKind: { requests: 0, messages: 0, bytes: 0, frames: 0 } },
  };
  readonly #folder: string;
  readonly #target: ChildProcess;
  readonly #started: Started;
  #crash: Error | undefined;

  private constructor(folder: string, target: ChildProcess, started: Started) {
    this.#folder = folder;
    this.#target = target;
    this.#started = started;
    target.on("exit", (code, signal) => (this.#crash = new Error(`The server ended: ${code ?? signal}.`)));
  }

  static async start(store: Store = {}): Promise<Fuzz> {
    const folder = mkdtempSync(join(tmpdir(), "dibs-fuzz-"));
    const asked: Asked = { url: join(folder, "work.db"), ...store, folder };
    const target = fork(fileURLToPath(new URL("target.ts", import.meta.url)), [JSON.stringify(asked)], {
      execArgv: [],
    });
    return new Fuzz(folder, target, (await heardOf(target)) as Started);
  }

  /** @param kinds those that may be drawn; all unless given */
  async round(seed: number, kinds: readonly Kind[] = Object.keys(ROUND) as Kind[]): Promise<void> {
    const random = new Random(seed);
    const weights = Object.fromEntries(kinds.map((each) => [each, WEIGHTS[each]])) as Record<Kind, number>;
    const kind = random.weighted(weights);
    const { url, attackers, canaries: planted } = this.#started;
    const { name, token, isLimited } = random.pick(attackers);
    const canaries = isLimited ? planted : NO_CANARIES;
    const watch = (): Watch => new Watch(planted, isLimited);
    try {
      const sent = await FUZZERS[kind]({ url, random, token, canaries, watch }, ROUND[kind]);
      this.found.inputs += sent;
      this.found.byKind[kind] += sent;
      await this.#tidyUp();
    } catch (error) {
      // A crash explains everything else that fails.
      const { message } = this.#crash ?? (error as Error);
      throw new Error(`Round ${seed} (${kind} of ${name}) failed: ${message}`, { cause: error });
    }
  }

  /** It still works, no client is connected any more, and everything that was added is gone. */
  async #tidyUp(): Promise<void> {
    if (this.#crash) throw this.#crash;
    const end = performance.now() + 30_000;
    for (;;) {
      const told = await this.#ask("tidy");
      this.found.peakRss = told.peakRss;
      if (told.failures.length > 0) throw new Error(told.failures.join("; "));
      if (told.peakRss > MOST_RSS) throw new Error(`The server took ${told.peakRss} bytes of memory.`);
      if (told.clients === 0) break;
      if (performance.now() > end) throw new Error(`${told.clients} clients never left.`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    for (;;) {
      const ready = await fetch(`${this.#started.url}/readyz`);
      const text = await ready.text();
      if (ready.status === 200) return;
      // On a busy machine the store may need longer than a probe waits.
      if (performance.now() > end) throw new Error(`Afterwards it was not ready: ${text}`);
    }
  }

  #ask(word: "tidy"): Promise<Told> {
    const heard = heardOf(this.#target) as Promise<Told>;
    this.#target.send(word);
    return heard;
  }

  async stop(): Promise<void> {
    if (!this.#crash) {
      const ended = new Promise((resolve) => this.#target.once("exit", resolve));
      this.#target.send("stop");
      await ended;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function heardOf(target: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const end = (code: number | null): void => reject(new Error(`The server ended: ${code}.`));
    target.once("exit", end);
    target.once("message", (message) => {
      target.off("exit", end);
      resolve(message);
    });
  });
}
