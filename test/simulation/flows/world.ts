import type { Reading } from "../../../src/core/time/clock.ts";
import type { Hint } from "../../../src/engine/hint.ts";
import type { Op, Outcome, Outcomes } from "../../../src/engine/engine.ts";
import { MemoryStore } from "../../../src/engines/memory/store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { PostgresSubject } from "../postgres.ts";
import { SqliteSubject } from "../sqlite.ts";
import type { Process } from "./process.ts";

export const FLOW_ENGINES = ["memory", "sqlite", "postgres"] as const;
export type FlowEngine = (typeof FLOW_ENGINES)[number];

const STORE = 7;

interface Ran {
  outcomes: Outcome[];
  hint: Hint;
}

interface SharedStore {
  run(ops: Op[], reading: Reading): Ran | Promise<Ran>;
  end(): void | Promise<void>;
}

/** One store and one clock, and the processes that have the store open. */
export class World {
  readonly clock = new ManualClock();
  readonly processes: Process[] = [];
  readonly #store: SharedStore;
  /** One batch after the other, like the commits of several processes. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(engine: FlowEngine) {
    this.#store = storeFor(engine, this.clock.read());
  }

  run(ops: readonly Op[], from?: Process): Promise<Ran> {
    const given = structuredClone(ops) as Op[];
    const ran = this.#last.then(() => this.#store.run(given, this.clock.read()));
    this.#last = ran.catch(() => {});
    return ran.then((answer) => {
      // Notifies of changes, not of a read that found nothing: otherwise two processes would keep waking each other.
      const { ready, ended } = answer.hint;
      if (ready || ended)
        for (const other of this.processes) if (other !== from) other.hear({ foreign: true });
      return answer;
    });
  }

  /** Called from outside: no process of the flow makes this call. */
  async ask<const Ops extends readonly Op[]>(...ops: Ops): Promise<Outcomes<Ops>> {
    return (await this.run(ops)).outcomes as Outcomes<Ops>;
  }

  async end(): Promise<void> {
    for (const process of this.processes) void process.die();
    await this.#last;
    await this.#store.end();
  }
}

function storeFor(engine: FlowEngine, reading: Reading): SharedStore {
  if (engine === "postgres") return new PostgresSubject(STORE);
  if (engine === "sqlite") return new SqliteSubject(STORE, reading, { file: false });
  const store = new MemoryStore(STORE, reading);
  return { run: (ops, at) => store.execute(ops, at), end: () => {} };
}
