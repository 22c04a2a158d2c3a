import { expect, test } from "vitest";
import { MIGRATIONS } from "../../../src/engines/postgres/migrations.ts";
import { connect, ground, untilOneWaits } from "./kit.ts";

/** A store as the dibs of that many steps left it, with a task that is ready. */
async function formerStore(url: string, schema: string, steps: number): Promise<void> {
  const link = await connect({ url, schema });
  await link.exec(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
  await link.exec(
    `CREATE TABLE dibs.migration (number int4 PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`,
  );
  for (const [index, step] of MIGRATIONS.slice(0, steps).entries()) {
    await link.exec(step);
    await link.exec(`INSERT INTO dibs.migration (number) VALUES (${index + 1})`);
  }
  await link.exec(`
    INSERT INTO dibs.store (one, salt, revision, epoch, event) VALUES (1, 7, 1, 0, 0);
    INSERT INTO dibs.queue (name, named, paused, created_at, revision) VALUES ('work', '{"maxAttempts":3}', false, 1, 1);
    INSERT INTO dibs.task (seq, created_at, queue, priority, data) VALUES (nextval('dibs.seq'), 1, 1, 0, '"kept"');
    INSERT INTO dibs.ready (pos, task, queue, rank, failures, special) VALUES (1, 1, 1, 0, 0, false)`);
}

test.each(MIGRATIONS.slice(1).map((_, index) => index + 1))(
  "a store of schema %i is brought up to date, with all it holds",
  async (steps) => {
    const { url, schema, open } = await ground();
    await formerStore(url, schema, steps);
    const dibs = await open();
    const [claim] = await dibs.queue("work").claim();
    expect(claim).toMatchObject({ data: "kept", maxAttempts: 3, attempt: 1 });
    await claim!.ack();
    // What is new works on it.
    await dibs.port.subscribe("a.*", "g", {});
    expect(await dibs.port.publish({ topic: "a.b", data: "1" })).toHaveLength(1);
    await dibs.schedule("s", { every: "1h" }, { queue: "work" }).ready;
    expect(await dibs.schedules()).toHaveLength(1);
  },
);

test("of ten that open an old store at once one brings it up to date, and all can use it", async () => {
  const { url, schema, open } = await ground();
  await formerStore(url, schema, 1);
  const all = await Promise.all(Array.from({ length: 10 }, () => open()));
  await Promise.all(all.map((dibs, n) => dibs.queue<number>("work").add(n)));
  expect(await all[0]!.queue("work").claim({ max: 20 })).toHaveLength(11);
});

test("while somebody's transaction has a table that an upgrade needs, all others can go on", async () => {
  const { url, schema, open, client } = await ground();
  await formerStore(url, schema, 1);
  const [dump, looking] = [await client(), await client()];
  await dump.query("BEGIN");
  await dump.query(`SELECT 1 FROM ${schema}.waiting`);
  const opening = open();
  await untilOneWaits(looking, schema);
  expect((await looking.query(`SELECT 1 FROM ${schema}.waiting`)).rowCount).toBe(0);
  await dump.query("COMMIT");
  const [claim] = await (await opening).queue("work").claim();
  expect(claim).toMatchObject({ data: "kept" });
});
