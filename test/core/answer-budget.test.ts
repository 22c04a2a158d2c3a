import { describe, expect, test } from "vitest";
import { AnswerBudget, type Room } from "../../src/core/answer/answer-budget.ts";

const bounds = { perClient: 10, inTotal: 25 };

/** The order in which waiting reservations are granted. */
function following() {
  const granted: string[] = [];
  const follow = (name: string, room: Promise<Room>): Promise<Room> =>
    room.then((given) => {
      granted.push(name);
      return given;
    });
  return { granted, follow };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("answer budget", () => {
  test("a reservation is granted at once while there is room, and otherwise when room is given back", async () => {
    const client = new AnswerBudget(bounds).client();
    const { granted, follow } = following();
    const first = client.reserveNow(6)!;
    expect(client.reserveNow(6)).toBeUndefined();
    const second = follow("second", client.reserve(6));
    await settled();
    expect(granted).toEqual([]);
    first.giveBack();
    (await second).giveBack();
    expect(client.isIdle).toBe(true);
  });

  test("a single answer gets room, however large it is", () => {
    const client = new AnswerBudget(bounds).client();
    expect(client.reserveNow(1_000)).toBeDefined();
    expect(client.reserveNow(0)).toBeUndefined();
  });

  test("a client that reads nothing does not use up the room of other clients", async () => {
    const budget = new AnswerBudget(bounds);
    const [silent, other] = [budget.client(), budget.client()];
    silent.unread = 10;
    const waiting = silent.reserve(5);
    expect(other.reserveNow(10)).toBeDefined();
    silent.unread = 3;
    await waiting;
    expect(budget.used).toBe(18);
  });

  test("reservations of one client, and those that wait for the total, are granted in order", async () => {
    const budget = new AnswerBudget(bounds);
    const { granted, follow } = following();
    const clients = Array.from({ length: 5 }, () => budget.client());
    const rooms = clients.slice(0, 2).map((client) => client.reserveNow(10)!);
    const large = follow("large", clients[2]!.reserve(10));
    const small = follow("small", clients[3]!.reserve(6));
    rooms[0]!.resize(7);
    await settled();
    expect(granted).toEqual([]);
    rooms[1]!.giveBack();
    await large;
    await small;
    expect(granted).toEqual(["large", "small"]);
  });

  test("a reservation that is aborted gets no room and blocks none", async () => {
    const budget = new AnswerBudget(bounds);
    const client = budget.client();
    const room = client.reserveNow(10)!;
    const stop = new AbortController();
    const waiting = client.reserve(10, stop.signal);
    stop.abort(new Error("gone"));
    await expect(waiting).rejects.toThrow("gone");
    room.giveBack();
    expect(client.isIdle).toBe(true);
    expect(budget.used).toBe(0);
  });

  test("resizing a room changes what is used by the difference, also of one byte", () => {
    const budget = new AnswerBudget(bounds);
    const room = budget.client().reserveNow(5)!;
    for (const bytes of [6, 6, 5, 0, 9]) {
      room.resize(bytes);
      expect(budget.used).toBe(bytes);
    }
  });

  test("resizing a room after it was given back has no effect, and giving it back twice counts once", () => {
    const budget = new AnswerBudget(bounds);
    const client = budget.client();
    const room = client.reserveNow(5)!;
    room.giveBack();
    room.resize(9);
    expect(budget.used).toBe(0);
    room.giveBack();
    expect(client.isIdle).toBe(true);
  });
});
