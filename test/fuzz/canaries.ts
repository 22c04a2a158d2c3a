import type { Port } from "../../src/core/port.ts";

/** What must never reach a token that may not see it. All canaries begin alike, so that one search finds them all. */
const WORD = /CANARY-[a-z]+-\d+/g;
const ID = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g;

export const isCanary = (name: string): boolean => name.includes("CANARY-");

/** What attackers know of it: a queue's name, and ids that they may have guessed. Nothing of what these lead to. */
export interface Canaries {
  queue: string;
  ids: string[];
}

/**
 * Queues that no limited token may see, with tasks in every state. Everything in them is a canary: names, payloads,
 * headers, keys, errors, workers, results, steps, schedules, topics, pipelines.
 */
export async function plantCanaries(store: Port): Promise<Canaries> {
  const word = (kind: string, index: number): string => `CANARY-${kind}-${index}`;
  const known = word("known", 0);
  const hidden = word("queue", 0);
  const verified = word("queue", 1);
  const task = (queue: string, index: number) => ({
    ...{ queue, data: JSON.stringify(word("data", index)), headers: { secret: word("header", index) } },
    ...{ groupKey: word("group", index), idempotencyKey: word("key", index) },
  });
  const worker = {
    ...{ id: word("workerid", 0), name: word("worker", 0), host: word("host", 0), concurrency: 1, pid: 1 },
    queues: [hidden, verified],
  };
  // Limited tokens may see this queue, but not the others of its pipeline.
  const shared = { ...worker, id: "shared", name: "shared", host: "shared", queues: [hidden, "work"] };
  await store.declare(hidden, { maxAttempts: 1 });
  await store.declare(verified, { verified: true });
  const session = await store.join(worker, 3_600_000, () => {});
  await store.join(shared, 3_600_000, () => {});
  const names = { max: 1, worker: worker.id, wait: 0, session };
  const ids: string[] = [];
  const add = async (queue: string, index: number): Promise<void> => {
    const [added] = await store.add([task(queue, index)]);
    ids.push(added!.id);
  };
  const claim = async (queue: string) => (await store.claim({ queues: [queue], ...names })).tasks[0]!;
  await add(hidden, 0);
  const dead = await claim(hidden);
  const error = { name: word("name", 0), message: word("error", 0), stack: word("stack", 0) };
  await store.settle(dead, { kind: "reject", error });
  await add(hidden, 1);
  await store.settle(await claim(hidden), { kind: "ack", result: JSON.stringify(word("result", 0)) });
  await add(hidden, 2);
  const held = await claim(hidden);
  await store.progress(held, 0.5, word("note", 0));
  await store.step(held, word("step", 0), JSON.stringify(word("value", 0)));
  await add(hidden, 3);
  await store.signal(ids.at(-1)!, word("signal", 0), JSON.stringify(word("value", 1)));
  await add(verified, 4);
  await store.settle(await claim(verified), { kind: "ack", result: JSON.stringify(word("result", 1)) });
  await add(known, 5);
  const stages = [{ name: "first", joins: false }];
  const pipeline = word("pipeline", 0);
  await store.definePipeline(pipeline, stages);
  const [run] = await store.add([{ ...task(`${pipeline}/first`, 6), run: { pipeline, stages } }]);
  ids.push(run!.id);
  await store.subscribe("secret.topic", word("subscriber", 0), {});
  const timing = { every: 3_600_000, missed: "once" } as const;
  const { idempotencyKey: _, ...scheduled } = task(hidden, 7);
  await store.schedule(word("schedule", 0), { ...timing, task: scheduled });
  const pool = {
    kind: "pool",
    holder: word("holder", 0),
    host: word("host", 1),
    pid: 1,
    lease: 3_600_000,
  } as const;
  const reasons = [word("reason", 0)];
  // Limited tokens may see one of its queues. It is about the other one, too.
  for (const [name, queues] of [
    [word("pool", 0), [hidden]],
    ["shared", ["work", hidden]],
  ] as const)
    await store.supervise({
      ...{ ...pool, name, queues: [...queues], report: JSON.stringify(word("report", 0)) },
      entries: [{ type: "pool.started", queue: queues[0], reasons }],
    });
  await store.supervise({
    ...{ ...pool, kind: "alerts", name: "alerts", queues: ["work"] },
    report: JSON.stringify({ states: { [`${hidden} depth`]: 1 } }),
    entries: [{ type: "alert.raised", queue: "work", reasons: ["depth"] }],
  });
  return { queue: known, ids };
}

/** The canaries that a text contains. */
function namedIn(text: string, ids: ReadonlySet<string>): string[] {
  return [...(text.match(WORD) ?? []), ...(text.match(ID) ?? []).filter((id) => ids.has(id))];
}

/** Checks what one client gets. What it has named itself reveals nothing. */
export class Watch {
  readonly #ids: ReadonlySet<string>;
  readonly #named = new Set<string>();
  readonly #isLimited: boolean;

  constructor({ ids }: Canaries, isLimited: boolean) {
    this.#ids = new Set(ids);
    this.#isLimited = isLimited;
  }

  sent(text: string): void {
    for (const canary of namedIn(text, this.#ids)) this.#named.add(canary);
  }

  /** The canary that should not be in there, if there is one. */
  leakIn(text: string): string | undefined {
    if (!this.#isLimited) return undefined;
    return namedIn(text, this.#ids).find((canary) => !this.#named.has(canary));
  }
}
