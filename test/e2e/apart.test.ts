import { describe, expect } from "vitest";
import { Proxy } from "../proxy.ts";
import { freshDatabase } from "../postgres/shared.ts";
import { Network, whyNoNetwork } from "./harness/network.ts";
import { actsOf, test } from "./harness/stage.ts";

const LEASE_MS = 2_000;
const why = await whyNoNetwork();

describe.skipIf(why)(`machines with a cable between them${why ? `, not here: ${why}` : ""}`, () => {
  test("a worker that is cut off loses its task, learns that, cannot settle it later, and continues", async ({
    stage,
  }) => {
    const url = new URL(await freshDatabase((undo) => stage.onEnd(undo)));
    const network = await Network.make(0, (undo) => stage.onEnd(undo));
    const proxy = await Proxy.start(Number(url.port), network.address);
    stage.onEnd(() => proxy.close());
    const far = new URL(url);
    far.hostname = network.address;
    far.port = `${proxy.port}`;
    stage.file = url.href;
    const cutOff = await stage.startWorker(
      { file: far.href, policy: { lease: LEASE_MS, elsewhere: 0 }, work: { name: "far" } },
      { by: network.by },
    );
    const dibs = await stage.open();
    const task = await actsOf(dibs).add({ do: "outlive", gate: "back" });
    const { fence } = await cutOff.hears("start");
    await network.pull();
    // Its own clock tells it: the cable is still unplugged.
    expect(await cutOff.hears("abort")).toMatchObject({ fence, code: "CLAIM_LOST" });
    const near = await stage.startWorker({ work: { name: "near" } });
    expect(await task.result({ timeout: "20s" })).toBe("near");
    await near.stop();
    await network.plug();
    const next = await actsOf(dibs).add({ do: "echo", value: "back" });
    await cutOff.hears("start", ({ id }) => id === next.id);
    expect(await next.result({ timeout: "60s" })).toBe("back");
    cutOff.tell({ open: "back" });
    expect(await cutOff.hears("late")).toMatchObject({ id: task.id, code: "CLAIM_LOST" });
    expect(await cutOff.stop()).toMatchObject({ code: 0 });
    expect((await task.info()).result).toBe("near");
    expect(await task.history()).toMatchObject([{ outcome: "lost" }, { outcome: "done" }]);
  });
});
