import { invalid } from "../errors/errors.ts";
import { EXPORT_FORMAT, RECORD_TYPES, type RecordType, type StoreRecord } from "./record.ts";
import { show } from "../errors/show.ts";
import { isTaskId } from "../task/task-id.ts";
import { type Body, END_STATES, PENDING_STATES } from "../task/task.ts";

/**
 * The records of an export as lines of JSON, and back, for `dibs export` and `dibs import`. Bytes are written as
 * {"base64": "…"}.
 */

export function formatRecord(record: StoreRecord): string {
  return JSON.stringify(record, (_, value: unknown) =>
    value instanceof Uint8Array
      ? { base64: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64") }
      : value,
  );
}

/** Parses a record, or refuses it with an error that names `line`, its line number. */
export function parseRecord(text: string, line: number): StoreRecord {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw invalid(
      `Line ${line} is not JSON: ${show(text.slice(0, 100))}. The import stopped before it. Give a file that dibs export wrote.`,
    );
  }
  if (!isObject(value) || !RECORD_TYPES.includes(value["type"] as RecordType)) {
    throw invalid(
      `Line ${line} is not a record of an export: its type must be one of ${RECORD_TYPES.join(", ")}. ` +
        `The import stopped before it. Give a file that dibs export wrote.`,
    );
  }
  const type = value["type"] as RecordType;
  if (type === "store" && value["format"] !== EXPORT_FORMAT) {
    throw invalid(
      `Line ${line} names format ${show(value["format"])} and this dibs knows ${EXPORT_FORMAT}. Nothing was imported. ` +
        `Import it with the dibs version that wrote it, or a newer one.`,
    );
  }
  const wrong = Object.entries(SHAPES[type]).find(([name, check]) => !check(value[name]));
  if (wrong) {
    throw invalid(
      `Line ${line}: ${wrong[0]} of a ${type} cannot be ${show(value[wrong[0]])}. The import stopped before it. ` +
        `docs/reference/export-format.md says what it may be.`,
    );
  }
  return withBodies(value) as unknown as StoreRecord;
}

type Fields = Record<string, unknown>;
type Check = (value: unknown) => boolean;

const isObject = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const text: Check = (value) => typeof value === "string";
const whole: Check = (value) => Number.isSafeInteger(value);
const count: Check = (value) => whole(value) && (value as number) >= 0;
const id: Check = (value) => typeof value === "string" && isTaskId(value);
const flag: Check = (value) => value === undefined || value === true;
const object: Check = isObject;
const body: Check = (value) => text(value) || (isObject(value) && text(value["base64"]));
const noneOr =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
const nullOr =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every((each) => check(each));
const shaped =
  (shape: Record<string, Check>): Check =>
  (value) =>
    isObject(value) && Object.entries(shape).every(([name, check]) => check(value[name]));
const oneOf =
  (...values: readonly unknown[]): Check =>
  (value) =>
    values.includes(value);

const gate = { meter: noneOr(object), heldUntil: noneOr(whole), wakeAt: noneOr(whole) };
const error = shaped({ name: text, message: text, stack: nullOr(text), fingerprint: text });
const cause = shaped({ name: text, message: text, stack: nullOr(text) });
const attempt = shaped({
  ...{ attempt: count, fence: count, worker: text, startedAt: whole, endedAt: whole, outcome: text },
  error: nullOr(error),
});
const pending = shaped({
  ...{ fence: count, worker: text, startedAt: whole, asked: noneOr(id), result: nullOr(body) },
  ...{ adds: noneOr(text), each: flag, next: noneOr(object) },
});
const flow = shaped({
  ...{
    slot: whole,
    added: count,
    claimed: count,
    done: count,
    failed: count,
    waitMs: whole,
    serviceMs: whole,
  },
});
const endState = oneOf(...END_STATES);

const SHAPES: Record<RecordType, Record<string, Check>> = {
  store: { export: text, store: count, now: whole, seq: count, fence: count },
  queue: {
    ...{ name: text, policy: object, declared: noneOr(text), paused: flag, createdAt: whole },
    ...{ ...gate, reviewed: noneOr(text), flow: noneOr(listOf(flow)) },
  },
  group: { queue: text, key: text, ...gate },
  subscription: { pattern: text, group: text, queue: text, createdAt: whole },
  document: { kind: text, name: text, value: text, dueAt: noneOr(whole) },
  run: {
    ...{ id, queue: text, pipeline: text, stages: listOf(object), underWay: count },
    ...{ state: noneOr(endState), endedAt: noneOr(whole), result: noneOr(body) },
    counts: noneOr(object),
    signals: noneOr(listOf(shaped({ name: text, value: nullOr(body) }))),
  },
  part: {
    ...{ id, run: id, stage: text, part: listOf(count), state: noneOr(endState) },
    ...{
      startedAt: noneOr(whole),
      endedAt: noneOr(whole),
      awaitsJoin: noneOr(shaped({ result: nullOr(body) })),
    },
  },
  child: {
    ...{ id, parent: id, n: count, name: text, queue: text, state: noneOr(endState), endedAt: noneOr(whole) },
    ...{ result: noneOr(body), error: noneOr(cause) },
  },
  task: {
    ...{
      id,
      queue: text,
      state: oneOf(...PENDING_STATES.filter((state) => state !== "claimed"), ...END_STATES),
    },
    ...{
      data: body,
      contentType: noneOr(text),
      headers: noneOr(object),
      priority: noneOr(whole),
      urgent: flag,
    },
    ...{
      cost: noneOr(count),
      groupKey: noneOr(text),
      idempotencyKey: noneOr(text),
      maxAttempts: noneOr(count),
    },
    ...{ expiresAt: noneOr(whole), pos: noneOr(count), failures: noneOr(count), linePos: noneOr(count) },
    elsewhere: noneOr(shaped({ until: whole, avoid: listOf(text) })),
    ...{ dueAt: noneOr(whole), waitsFor: noneOr(text), blocksGroup: flag, verifying: noneOr(pending) },
    ...{
      endedAt: noneOr(whole),
      result: noneOr(body),
      feedback: noneOr(text),
      attempts: noneOr(listOf(attempt)),
    },
    log: noneOr(listOf(shaped({ fence: count, at: whole, text }))),
    steps: noneOr(
      listOf(shaped({ kind: oneOf("step", "signal", "timeout", "child"), name: text, value: nullOr(body) })),
    ),
  },
  key: { queue: text, key: text, task: id, forgetAt: noneOr(whole), state: noneOr(endState) },
  end: { counts: object },
};

/** Decodes the base64 form of bytes in the fields that may have it. */
function withBodies(value: Fields): Fields {
  for (const name of ["data", "result"]) if (name in value) value[name] = bodyFrom(value[name]);
  for (const name of ["verifying", "awaitsJoin"]) {
    const inner = value[name];
    if (isObject(inner)) inner["result"] = bodyFrom(inner["result"]);
  }
  const list = value["type"] === "task" ? value["steps"] : value["type"] === "run" ? value["signals"] : null;
  if (Array.isArray(list)) for (const step of list as Fields[]) step["value"] = bodyFrom(step["value"]);
  return value;
}

function bodyFrom(value: unknown): Body | null {
  if (!isObject(value)) return value as string | null;
  return new Uint8Array(Buffer.from(value["base64"] as string, "base64"));
}
