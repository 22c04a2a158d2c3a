import type { Op, VerbName, Verbs } from "../../../src/engine/engine.ts";
import type { PostgresStore } from "../../../src/engines/postgres/batch/store.ts";
import { newTask, QUEUE, worker } from "../sqlite/kit.ts";

/** A store with tasks in all states, by the thousand. */

export type Run = <V extends VerbName>(...ops: Op<V>[]) => Promise<Verbs[V]["out"][]>;
export function asker(store: PostgresStore): Run {
  return async <V extends VerbName>(...ops: Op<V>[]) =>
    (await store.run(ops as Op[])).outcomes.map((outcome) => {
      if ("refused" in outcome) throw new Error(outcome.refused.message);
      return outcome.ok;
    });
}

export async function fill(store: PostgresStore): Promise<void> {
  const run = asker(store);
  const ERROR = { name: "Error", message: "no", stack: null };
  const { session } = (await run<"join">({ verb: "join", worker: worker("w"), lease: 60_000 }))[0]!;
  await run<"join">({ verb: "join", worker: worker("other"), lease: 60_000 });
  await run<"declare">({ verb: "declare", queue: "judged", policy: { verified: true } });
  await run<"declare">({
    verb: "declare",
    queue: "sticky",
    policy: { groups: { concurrency: 5, sticky: true } },
  });
  const traits = [
    (i: number) => ({ groupKey: `g${i % 300}` }),
    (i: number) => ({ idempotencyKey: `f${i}` }),
    () => ({ ttl: 86_400_000 }),
    () => ({ delay: 86_400_000 }),
    () => ({}),
    () => ({ queue: "judged" }),
    (i: number) => ({ queue: "sticky", groupKey: `s${i % 100}` }),
  ];
  const tasks = Array.from({ length: 21_000 }, (_, i) => newTask(traits[i % traits.length]!(i)));
  for (let at = 0; at < tasks.length; at += 3_000)
    await run<"add">({ verb: "add", tasks: tasks.slice(at, at + 3_000) });
  const claim = async (queue: string, max: number) =>
    (await run<"claim">({ verb: "claim", queues: [queue], max, worker: "w", session }))[0]!.tasks;
  for (let round = 0; round < 3; round++) {
    const claimed = await claim(QUEUE, 1_000);
    const settlements = [
      { kind: "done", result: null } as const,
      { kind: "reject", error: ERROR } as const,
      { kind: "fail", error: ERROR, delay: 0 } as const,
    ];
    await run<"settle">(
      ...claimed.flatMap(({ id, fence }, i): Op<"settle">[] => {
        const settlement = settlements[i % 4];
        return settlement ? [{ verb: "settle", id, fence, settlement }] : [];
      }),
    );
  }
  const settlement = { kind: "done", result: null } as const;
  for (const queue of ["judged", "sticky"]) {
    const claimed = await claim(queue, 500);
    await run<"settle">(
      ...claimed.map(({ id, fence }): Op<"settle"> => ({ verb: "settle", id, fence, settlement })),
    );
  }
}
