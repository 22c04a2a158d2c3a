import { describe, expect, it } from "vitest";
import { each } from "../../src/index.ts";
import { openStore, STORES } from "../stores.ts";

describe.each(STORES)("a pipeline with branches on %s", (store) => {
  it("branches run side by side, and their results are merged", async () => {
    const dibs = await openStore(store);
    const seen: string[] = [];
    const both = Promise.withResolvers<void>();
    const meet = async (name: string): Promise<void> => {
      if (seen.push(name) === 2) both.resolve();
      // Neither branch ends before the other has started.
      await both.promise;
    };
    const review = dibs
      .pipeline<string>("review")
      .stage("read", (task) => task.data.toUpperCase())
      .stage("left", async (task) => {
        await meet("left");
        return task.data.length;
      })
      .stage(
        "right",
        async (task) => {
          await meet("right");
          return [task.data];
        },
        { after: "read" },
      )
      .stage("merge", ({ data }) => `${data.left} ${data.right.join()}`, { after: ["left", "right"] });
    await using worker = review.work();
    await worker.ready;
    const run = await review.add("abc");
    expect(await run.result({ timeout: "20s" })).toBe("3 ABC");
    const { stages } = await run.status();
    expect(stages.map(({ name, state, after }) => [name, state, after])).toEqual([
      ["read", "done", undefined],
      ["left", "done", undefined],
      ["right", "done", "read"],
      ["merge", "done", ["left", "right"]],
    ]);
  });

  it("parts are merged one by one, and several last stages give an object", async () => {
    const dibs = await openStore(store);
    const pages = dibs
      .pipeline<string[]>("pages")
      .stage("split", (task) => each(task.data))
      .stage("text", (task) => `text of ${task.data}`)
      .stage("image", (task) => `image of ${task.data}`, { after: "split" })
      .stage("page", ({ data }) => `${data.text}, ${data.image}`, { after: ["text", "image"] })
      .join("book", (task) => task.data)
      .join("count", (task) => task.data.length, { after: "text" });
    await using worker = pages.work();
    await worker.ready;
    const run = await pages.add(["a", "b"]);
    expect(await run.result({ timeout: "20s" })).toEqual({
      book: ["text of a, image of a", "text of b, image of b"],
      count: 2,
    });
  });

  it("a worker whose definition merges other stages fails with an explanation", async () => {
    const dibs = await openStore(store);
    const before = dibs
      .pipeline<number>("changed")
      .stage("a", (task) => task.data)
      .stage("b", (task) => task.data)
      .stage("c", (task) => task.data, { after: ["a", "b"] });
    const run = await before.add(1);
    const once = { maxAttempts: 1 };
    const after = dibs
      .pipeline<number>("changed")
      .stage("a", (task) => task.data)
      .stage("b", (task) => task.data)
      .stage("c", (task) => task.data, once);
    await using worker = after.work();
    await worker.ready;
    await expect(run.result({ timeout: "20s" })).rejects.toThrow(
      /merges no other stages .* merged a, b when run/,
    );
  });

  it("a stage that follows an unknown stage is refused when it is defined", async () => {
    const dibs = await openStore(store);
    const one = dibs.pipeline("wrong").stage("a", () => 1);
    // @ts-expect-error no such stage
    expect(() => one.stage("b", () => 2, { after: "typo" })).toThrow(/not defined before it/);
  });
});
