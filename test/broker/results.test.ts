import { describe, expect, test } from "vitest";
import { endOrState } from "../../src/broker/results.ts";
import { DibsError } from "../../src/core/errors/errors.ts";
import type { WaitOptions } from "../../src/core/port.ts";
import type { TaskEnd } from "../../src/core/task/task.ts";

const END = { state: "done", result: "1" } as TaskEnd;
const late = (): Promise<TaskEnd> => Promise.reject(new DibsError("TIMEOUT", "not within 5 ms"));

describe("waiting for an end that should say the state after the timeout", () => {
  const wait: WaitOptions = { timeout: 5, tellState: true };

  test("a wait that times out names the state of a task that is still pending", async () => {
    await expect(endOrState(late, async () => "claimed", wait)).rejects.toMatchObject({
      ...{ code: "TIMEOUT", message: "not within 5 ms", state: "claimed" },
    });
  });

  test("a wait that times out returns the end of a task that ended just then", async () => {
    const waits: (WaitOptions | undefined)[] = [];
    const end = (given?: WaitOptions): Promise<TaskEnd> => {
      waits.push(given);
      return waits.length === 1 ? late() : Promise.resolve(END);
    };
    expect(await endOrState(end, async () => "done", wait)).toBe(END);
    // It has ended, so the second question needs no time.
    expect(waits).toEqual([wait, { timeout: 0, tellState: true }]);
  });

  test("a wait passes on errors other than a timeout", async () => {
    const missing = (): Promise<TaskEnd> => Promise.reject(new DibsError("TASK_NOT_FOUND", "no such task"));
    await expect(endOrState(missing, async () => "ready", wait)).rejects.toMatchObject({
      code: "TASK_NOT_FOUND",
    });
  });
});

test("waiting for an end without asking for the state does not look it up", async () => {
  const never = (): Promise<never> => expect.fail("the state must not be read");
  await expect(endOrState(late, never, { timeout: 5 })).rejects.toMatchObject({ code: "TIMEOUT" });
});
