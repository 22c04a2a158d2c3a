import { expect, onTestFinished, test } from "vitest";
import { latestVersion, MIGRATIONS } from "../../../src/engines/postgres/schema/migrations.ts";
import { FIRST_VERSION } from "../../../src/engines/postgres/schema/schema.ts";
import { type Ground, ground, untilOneWaits } from "./kit.ts";

const STEP = `ALTER TABLE dibs.waiting ADD COLUMN more int8 NOT NULL DEFAULT 5`;

/** A store with a ready task, a group and a delayed task, which lacks the last step that this process knows. */
async function olderStore({ open }: Ground): Promise<void> {
  const dibs = await open();
  await dibs.queue("work").add("ready");
  await dibs.queue("grouped").addMany([
    { data: "head", groupKey: "g" },
    { data: "behind", groupKey: "g" },
  ]);
  await dibs.queue("later").add("due", { delay: "1h" });
  await dibs.close();
  (MIGRATIONS as string[]).push(STEP);
  onTestFinished(() => void (MIGRATIONS as string[]).pop());
}

test.each([1, 14, 99])(
  "a schema of version %i, from before the first release, is refused",
  async (version) => {
    const place = await ground();
    await (await place.open()).close();
    const client = await place.client();
    await client.query(`UPDATE ${place.schema}.migration SET number = ${version}`);
    await expect(place.open()).rejects.toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringMatching(
        new RegExp(
          `before its first release \\(version \\d+; this one reads ${FIRST_VERSION} and later\\).*Export it`,
        ),
      ),
    });
  },
);

test("a store of the previous version gets the missing step, and keeps its tasks", async () => {
  const place = await ground();
  await olderStore(place);
  const dibs = await place.open();
  expect(await dibs.queue("work").claim()).toMatchObject([{ data: "ready" }]);
  expect(await dibs.queue("grouped").claim({ max: 5 })).toMatchObject([{ data: "head" }]);
  expect((await dibs.queue("later").stats()).depth).toMatchObject({ scheduled: 1 });
  const client = await place.client();
  expect((await client.query(`SELECT more FROM ${place.schema}.waiting`)).rows).toMatchObject([
    { more: "5" },
  ]);
  const numbers = await client.query(`SELECT number FROM ${place.schema}.migration ORDER BY number`);
  expect(numbers.rows).toEqual([{ number: latestVersion() - 1 }, { number: latestVersion() }]);
});

test("of ten processes that open an older store at once one upgrades it, and all can use it", async () => {
  const place = await ground();
  await olderStore(place);
  const all = await Promise.all(Array.from({ length: 10 }, () => place.open()));
  await Promise.all(all.map((dibs, n) => dibs.queue<number>("work").add(n)));
  expect(await all[0]!.queue("work").claim({ max: 20 })).toHaveLength(11);
});

test("while another transaction has a table that an upgrade needs, other readers are not blocked", async () => {
  const place = await ground();
  await olderStore(place);
  const [dump, looking] = [await place.client(), await place.client()];
  await dump.query("BEGIN");
  await dump.query(`SELECT 1 FROM ${place.schema}.waiting`);
  const opening = place.open();
  await untilOneWaits(looking, place.schema);
  expect((await looking.query(`SELECT 1 FROM ${place.schema}.waiting`)).rowCount).toBe(1);
  await dump.query("COMMIT");
  const [claim] = await (await opening).queue("work").claim();
  expect(claim).toMatchObject({ data: "ready" });
});
