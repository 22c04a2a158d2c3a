import { describe, expect, test } from "vitest";
import { eachEvent } from "../each-event.ts";
import type { Port } from "../../src/core/port.ts";
import { VERBS, type WireVerb } from "../../src/protocol/verbs.ts";
import { setUp } from "./guarded.ts";
import {
  absentSubject,
  CALLS,
  joinAsSelf,
  JOINED_AS_SELF,
  makeSubject,
  plain,
  REQUESTS,
  snapshotOf,
  type Subject,
} from "./scope-subjects.ts";

/**
 * What each scope allows, verb by verb, on its own queues and on foreign ones. The compiler requires a row for each
 * verb.
 *
 * ok: executed. no: FORBIDDEN. none: the same answer as if it did not exist.
 * A cell is own/foreign. `all` is `admin:*`, for which no queue is foreign; a worker's session is foreign to all
 * others.
 */
const SCOPES = ["add", "work", "read", "admin", "all"] as const;

const TABLE: Record<WireVerb, string> = {
  //                add       work      read      admin     all
  declare: "        ok/no     ok/no     no/no     ok/no     ok/ok",
  pause: "          no/no     no/no     no/no     ok/no     ok/ok",
  unhold: "         no/no     no/no     no/no     ok/no     ok/ok",
  queues: "         no/no     no/no     ok/no     ok/no     ok/ok",
  stats: "          no/no     no/no     ok/no     ok/no     ok/ok",
  purge: "          no/no     no/no     no/no     ok/no     ok/ok",
  drop: "           no/no     no/no     no/no     ok/no     ok/ok",
  add: "            ok/no     no/no     no/no     ok/no     ok/ok",
  subscribe: "      no/no     ok/no     no/no     ok/no     ok/ok",
  unsubscribe: "    no/no     no/no     no/no     ok/no     ok/ok",
  subscriptions: "  none/none none/none ok/none   ok/none   ok/ok",
  publish: "        ok/no     no/no     no/no     ok/no     ok/ok",
  schedule: "       ok/no     no/no     no/no     ok/no     ok/ok",
  pauseSchedule: "  no/none   no/none   no/none   ok/none   ok/ok",
  unschedule: "     no/none   no/none   no/none   ok/none   ok/ok",
  fireSchedule: "   no/none   no/none   no/none   ok/none   ok/ok",
  schedules: "      none/none none/none ok/none   ok/none   ok/ok",
  supervise: "      no/no     ok/no     no/no     ok/no     ok/ok",
  supervised: "     none/none none/none ok/none   ok/none   ok/ok",
  decisions: "      none/none none/none ok/none   ok/none   ok/ok",
  claim: "          no/no     ok/no     no/no     ok/no     ok/ok",
  settle: "         no/none   ok/none   no/none   ok/none   ok/ok",
  extend: "         no/none   ok/none   no/none   ok/none   ok/ok",
  progress: "       no/none   ok/none   no/none   ok/none   ok/ok",
  step: "           no/none   ok/none   no/none   ok/none   ok/ok",
  // It needs `work` on the claim's queue, and `add` on the child's.
  spawn: "          no/no     no/no     no/no     ok/no     ok/ok",
  children: "       no/none   ok/none   ok/none   ok/none   ok/ok",
  steps: "          no/none   ok/none   ok/none   ok/none   ok/ok",
  signal: "         ok/none   ok/none   no/none   ok/none   ok/ok",
  verifying: "      no/none   ok/none   no/none   ok/none   ok/ok",
  task: "           no/none   ok/none   ok/none   ok/none   ok/ok",
  history: "        no/none   ok/none   ok/none   ok/none   ok/ok",
  cancel: "         no/none   no/none   no/none   ok/none   ok/ok",
  end: "            ok/none   no/none   ok/none   ok/none   ok/ok",
  list: "           no/no     no/no     ok/no     ok/no     ok/ok",
  definePipeline: " ok/no     ok/no     no/no     ok/no     ok/ok",
  pipelines: "      ok/none   ok/none   ok/none   ok/none   ok/ok",
  run: "            ok/none   no/none   ok/none   ok/none   ok/ok",
  runs: "           none/none none/none ok/none   ok/none   ok/ok",
  change: "         no/none   no/none   no/none   ok/none   ok/ok",
  cancelRun: "      no/none   no/none   no/none   ok/none   ok/ok",
  patterns: "       no/no     no/no     ok/no     ok/no     ok/ok",
  redrive: "        no/no     no/no     no/no     ok/no     ok/ok",
  discard: "        no/no     no/no     no/no     ok/no     ok/ok",
  join: "           no/no     ok/no     no/no     ok/no     ok/ok",
  reconcile: "      none/none ok/none   none/none ok/none   ok/none",
  rejoin: "         none/none ok/none   none/none ok/none   ok/none",
  retire: "         none/none ok/none   none/none ok/none   ok/none",
  leave: "          none/none ok/none   none/none ok/none   ok/none",
  workers: "        no/no     no/no     ok/no     ok/no     ok/ok",
};

/** Over HTTP a PUT is an operator's change, and needs admin. */
const OVER_HTTP: Partial<Record<WireVerb, string>> = {
  declare: "        no/no     no/no     no/no     ok/no     ok/ok",
  schedule: "       no/no     no/no     no/no     ok/no     ok/ok",
};

type Cell = "ok" | "no" | "none";

interface Answer {
  code: string;
  /** Without the subject's own values, so that answers on two subjects can be compared. */
  text: string;
}

const isOk = ({ code }: Answer): boolean => code === "ok" || code.startsWith("2");

async function answerOf(call: Promise<unknown>, subject: Subject): Promise<Answer> {
  try {
    return { code: "ok", text: plain(await call, subject) };
  } catch (error) {
    const { code, message } = error as { code: string; message: string };
    return { code, text: plain(message, subject) };
  }
}

const verbs = Object.keys(VERBS) as WireVerb[];
const cellsOf = (row: string): Cell[][] =>
  row
    .trim()
    .split(/ +/)
    .map((cell) => cell.split("/") as Cell[]);

/** Checks one verb with all scopes on own and foreign subjects. `call` returns what a token gets for a subject. */
async function checkRow(
  row: string,
  verb: WireVerb,
  { store, connect }: { store: Port; connect: (scopes: string[]) => Promise<Caller> },
): Promise<void> {
  const cells = cellsOf(row);
  const canBeNone = cells.flat().includes("none");
  for (const [index, scope] of SCOPES.entries()) {
    const kind = scope === "all" ? "admin" : scope;
    const { call, prepare } = await connect(
      scope === "all" ? ["admin:*"] : [`${kind}:own-*`, `${kind}:topic/own-*`],
    );
    for (const [place, side] of (["own", "foreign"] as const).entries()) {
      const expected = cells[index]![place]!;
      const what = `${verb} by ${scope} on ${side} is ${expected}`;
      const made = await makeSubject(store, `${side}-${scope}`);
      const subject = side === "own" ? await prepare(made) : made;
      const before = await snapshotOf(store, subject);
      const answer = await call(subject);
      const absent = await call(absentSubject(`${side}-absent`));
      if (expected === "ok") {
        expect({ what, answer: isOk(answer) ? "ok" : answer }).toEqual({ what, answer: "ok" });
        // A DELETE over HTTP answers nothing, whether or not there was something.
        if (canBeNone && answer.code !== "204") expect({ what, ...answer }).not.toEqual({ what, ...absent });
        continue;
      }
      if (expected === "no") expect({ what, code: answer.code }).toEqual({ what, code: FORBIDDEN(answer) });
      // For a token that may not see it, it makes no difference whether it exists.
      if (expected === "none" || side === "foreign") expect({ what, ...answer }).toEqual({ what, ...absent });
      expect(answer.text).not.toContain("canary");
      expect({ what, state: await snapshotOf(store, subject) }).toEqual({ what, state: before });
    }
  }
}

const FORBIDDEN = ({ code }: Answer): string => (/^\d/.test(code) ? "403" : "FORBIDDEN");

interface Caller {
  call: (subject: Subject) => Promise<Answer>;
  /** Creates what only the caller itself can have. */
  prepare: (subject: Subject) => Promise<Subject>;
}

describe("table of verbs and scopes", () => {
  test.each(verbs)("the native protocol allows %s according to the table", async (verb) => {
    const { store, openAs } = await setUp();
    const connect = async (scopes: string[]): Promise<Caller> => {
      const port = await openAs(...scopes);
      return {
        call: (subject) => answerOf(CALLS[verb](port, subject, store), subject),
        prepare: async (subject) => (JOINED_AS_SELF.has(verb) ? joinAsSelf(port, subject) : subject),
      };
    };
    await checkRow(TABLE[verb], verb, { store, connect });
  });

  test.each(Object.keys(REQUESTS) as WireVerb[])("HTTP allows %s according to the table", async (verb) => {
    const { store, server, tokenFor } = await setUp();
    const connect = async (scopes: string[]): Promise<Caller> => {
      const headers = { authorization: `Bearer ${tokenFor(...scopes)}`, "content-type": "application/json" };
      const call = async (subject: Subject): Promise<Answer> => {
        const [method, path, body] = REQUESTS[verb]!(subject);
        const given = body === undefined ? {} : { body: JSON.stringify(body) };
        const answer = await fetch(server.url + path, { method, headers, ...given });
        return { code: `${answer.status}`, text: plain(await answer.text(), subject) };
      };
      return { call, prepare: async (subject) => subject };
    };
    await checkRow(OVER_HTTP[verb] ?? TABLE[verb], verb, { store, connect });
  });
});

describe("lists over HTTP, and events", () => {
  test.each(["queues", "pipelines", "subscriptions", "schedules", "workers", "pools"])(
    "the list of %s contains only what the token may see",
    async (path) => {
      const { store, server, tokenFor } = await setUp();
      await makeSubject(store, "own-1");
      await makeSubject(store, "foreign-1");
      const seenBy = async (...scopes: string[]) => {
        const headers = { authorization: `Bearer ${tokenFor(...scopes)}` };
        const text = await (await fetch(`${server.url}/v1/${path}`, { headers })).text();
        return [text.includes("own-1"), text.includes("foreign-1")];
      };
      expect(await seenBy("read:own-*", "read:topic/own-*")).toEqual([true, false]);
      expect(await seenBy("admin:*")).toEqual([true, true]);
      if (path !== "pipelines") expect(await seenBy("add:own-*", "work:own-*")).toEqual([false, false]);
    },
  );

  test("a token gets only the events of queues that it may read", async () => {
    const { store, openAs } = await setUp();
    const seen: string[] = [];
    const stop = new AbortController();
    const reader = await openAs("read:own-*", "add:foreign-*", "work:foreign-*");
    const events = eachEvent(reader.events(stop.signal));
    const first = events.next();
    await makeSubject(store, "foreign-1");
    await makeSubject(store, "own-1");
    await store.pause("own-1", true);
    for (let next = await first; !next.done; next = await events.next()) {
      seen.push(JSON.stringify(next.value));
      if (next.value.type === "queue.paused") stop.abort();
    }
    expect(seen.length).toBeGreaterThan(3);
    expect(seen.filter((event) => event.includes("foreign"))).toEqual([]);
  });
});
