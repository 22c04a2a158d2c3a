import { statSync } from "node:fs";
import { dirname } from "node:path";
import { request } from "node:http";
import { describe, expect, test } from "vitest";
import { workWith } from "./kit.ts";

/** Sends requests with node as the program, which every machine with dibs has. */
function script(code: string): string[] {
  const helper = `
    const call = (method, path, body) => new Promise((resolve, reject) => {
      const sent = require("node:http").request({ socketPath: process.env.DIBS_SOCKET, method, path });
      sent.on("error", reject).on("response", (response) => {
        let text = ""; response.on("data", (part) => (text += part));
        response.on("end", () => resolve({ status: response.statusCode, ...JSON.parse(text) }));
      });
      sent.end(body && JSON.stringify(body));
    });
    (async () => {${code}})().then((answer) => console.log(JSON.stringify(answer)));`;
  return [process.execPath, "-e", helper];
}

describe("a program's socket", () => {
  test("a program reads its task, extends it and reports progress", async () => {
    const { queue } = await workWith("", {
      command: script(`
        return [
          await call("GET", "/task"),
          await call("POST", "/extend", { lease: "1m" }),
          await call("POST", "/progress", { value: 0.4, note: "drafting" }),
        ];`),
    });
    const task = await queue.add(1, { headers: { type: "x" } });
    const [about, extended, progressed] = (await task.result()) as object[];
    expect(about).toMatchObject({
      status: 200,
      id: task.id,
      queue: "work",
      attempt: 1,
      headers: { type: "x" },
    });
    expect([extended, progressed]).toEqual([{ status: 200 }, { status: 200 }]);
  });

  test("a step that a failed attempt stored is there for the next one", async () => {
    const { queue } = await workWith("", {
      command: script(`
        const before = await call("GET", "/steps/plan%20a");
        const stored = await call("PUT", "/steps/plan%20a", { value: { n: Number(process.env.DIBS_ATTEMPT) } });
        if (process.env.DIBS_ATTEMPT === "1") process.exit(1);
        return [before, stored];`),
    });
    const task = await queue.add(1);
    expect(await task.result()).toEqual([
      { status: 200, stored: true, value: { n: 1 } },
      { status: 200, value: { n: 1 } },
    ]);
  });

  test("tasks that a program adds are committed with its success, and not with its failure", async () => {
    const { dibs, queue } = await workWith("", {
      command: script(`
        const added = await call("POST", "/add", { queue: "next", data: { from: 1 }, priority: 2 });
        if (process.env.DIBS_ATTEMPT === "1") process.exit(1);
        return added;`),
    });
    const task = await queue.add(1);
    expect(await task.result()).toEqual({ status: 200 });
    const { tasks } = await dibs.queue("next").tasks({ state: "ready" });
    expect(tasks).toMatchObject([{ data: { from: 1 }, priority: 2 }]);
  });

  test.each([
    ["an unknown path", `call("GET", "/nothing")`, 400, "There is no GET /nothing"],
    ["a body that is not JSON", `call("POST", "/extend")`, 400, "not JSON"],
    ["a wrong duration", `call("POST", "/extend", { lease: "soon" })`, 400, "duration"],
    ["an unknown option", `call("POST", "/add", { queue: "q", prio: 1 })`, 400, "prio"],
    [
      "a value out of range",
      `call("POST", "/add", { queue: "q", priority: 5000 })`,
      400,
      "from -1000 to 1000",
    ],
    ["a queue with a bad name", `call("POST", "/add", { queue: "no name!" })`, 400, "queue name"],
    ["an add without a queue", `call("POST", "/add", {})`, 400, "queue"],
  ])("%s is refused", async (_, code, status, message) => {
    const { queue } = await workWith("", { command: script(`return ${code};`) });
    const answer = await (await queue.add(1)).result();
    expect(answer).toMatchObject({ status, code: "INVALID", message: expect.stringContaining(message) });
  });

  test("only this user can open the socket", async () => {
    const { queue } = await workWith("echo $DIBS_SOCKET; sleep 0");
    const path = (await (await queue.add(1)).result()) as string;
    expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
  });

  test("the socket's name ends with its task: a process left behind reaches no other task", async () => {
    const { queue } = await workWith("echo $DIBS_SOCKET");
    const path = (await (await queue.add(1)).result()) as string;
    await (await queue.add(2)).result();
    const failed = new Promise((resolve) => {
      request({ socketPath: path, path: "/task" }).on("error", resolve).end();
    });
    expect(await failed).toMatchObject({ code: "ENOENT" });
  });
});
