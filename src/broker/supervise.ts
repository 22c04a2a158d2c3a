import { invalid } from "../core/errors/errors.ts";
import { byteLength, LIMITS } from "../core/input/limits.ts";
import { checkNames, checkNumber, checkObject, checkText } from "../core/input/options.ts";
import type { GuardedChange } from "../core/port.ts";
import type { Paged, PageQuery } from "../core/answer/page.ts";
import { checkQueueName } from "../core/queue/queue-name.ts";
import { show } from "../core/errors/show.ts";
import {
  type NewEntry,
  STORED_ENTRIES,
  SUPERVISED_KINDS,
  type SuperviseCall,
  type SupervisedKind,
  type SupervisedRecord,
  type SuperviseOutcome,
  SUPERVISION_EVENTS,
  type SupervisionEntry,
} from "../core/supervision.ts";
import { checkPage } from "./check.ts";
import type { Context } from "./context.ts";
import { findDocument, listDocuments } from "./documents.ts";

/**
 * The verbs of pools and alerts: one process at a time holds a name under a lease. The holder and its report are one
 * document; its entries are in a ring of documents, so that each entry rewrites a small one only.
 */
interface Stored extends Omit<SuperviseCall, "lease" | "entries" | "kind" | "name"> {
  heldUntil: number | null;
  /** Entries that were ever stored. */
  count: number;
}

const PER_DOCUMENT = 50;
/** With entries of at most this size, all stored ones fit into one answer. */
const ENTRY_BYTES = Math.floor(LIMITS.answerBytes / STORED_ENTRIES);
/** One more than the entries fill, because the newest document is not full. */
const DOCUMENTS = STORED_ENTRIES / PER_DOCUMENT + 1;

export async function supervise(
  context: Context,
  given: SuperviseCall,
  { mayChange }: Pick<GuardedChange<SupervisedRecord>, "mayChange"> = {},
): Promise<SuperviseOutcome> {
  const { entries = [], ...call } = checkCall(given);
  for (;;) {
    const { found, now } = await read(context, call.kind, call.name);
    const stored = found === undefined ? null : (JSON.parse(found) as Stored);
    const before = stored && describe(call.kind, call.name, stored, now);
    // Check first: a caller that may not take the name must not learn which process has it.
    if (before) mayChange?.(before);
    if (before && before.holder !== call.holder && before.heldFor > 0) return { held: false, before };
    const { kind, name, lease, ...own } = call;
    const count = stored?.count ?? 0;
    const value: Stored = {
      ...own,
      heldUntil: lease === 0 ? null : now + lease,
      count: count + entries.length,
    };
    const put = { verb: "put", kind, name, value: JSON.stringify(value), expect: found ?? null } as const;
    const taken = await context.run(put);
    if (taken.before !== (found ?? null)) continue;
    // Append only after the name was taken: an entry of a process that does not hold it must not be stored.
    for (const [at, entry] of entries.entries())
      await append(context, call, count + at, { at: now, ...entry });
    return { held: true, before };
  }
}

async function append(
  context: Context,
  { kind, name }: SuperviseCall | Omit<SuperviseCall, "entries">,
  number: number,
  entry: SupervisionEntry,
): Promise<void> {
  const document = { kind: `${kind}-entries`, name: documentOf(name, number) };
  const found = await findDocument(context, document.kind, document.name);
  const isFirst = number % PER_DOCUMENT === 0;
  const earlier = found && !isFirst ? (JSON.parse(found.value) as SupervisionEntry[]) : [];
  const { type, queue, reasons, from, to } = entry;
  await context.run({
    ...{ verb: "put", ...document, value: JSON.stringify([...earlier, entry]) },
    event: {
      ...{ type, queue, name, detail: reasons.join(" ") },
      ...(from !== undefined && { from }),
      ...(to !== undefined && { to }),
    },
  });
}

function documentOf(name: string, number: number): string {
  return `${name}#${Math.floor(number / PER_DOCUMENT) % DOCUMENTS}`;
}

export async function supervised(
  context: Context,
  kind: SupervisedKind,
  query: PageQuery & { name?: string | undefined } = {},
): Promise<Paged<SupervisedRecord>> {
  checkKind(kind);
  const page = checkPage(query, "supervised", "name");
  const { name } = query;
  const only = name === undefined ? page : { ...page, name: checkName(name) };
  const [{ items, next }, { now }] = await Promise.all([
    listDocuments(context, kind, only, (each) => ({ ...each, stored: JSON.parse(each.value) as Stored })),
    context.run({ verb: "housekeep" }),
  ]);
  return { items: items.map((each) => describe(kind, each.name, each.stored, now)), next };
}

/** The newest first. */
export async function entries(
  context: Context,
  kind: SupervisedKind,
  name: string,
  limit: number,
): Promise<SupervisionEntry[]> {
  checkKind(kind);
  checkNumber(limit, "limit", 1, STORED_ENTRIES);
  const { found } = await read(context, kind, checkName(name));
  if (found === undefined) return [];
  const { count } = JSON.parse(found) as Stored;
  const first = Math.max(0, count - limit);
  const numbers = new Set(Array.from({ length: count - first }, (_, at) => documentOf(name, first + at)));
  const parts = await Promise.all(
    [...numbers].map((document) => findDocument(context, `${kind}-entries`, document)),
  );
  const all = parts.flatMap((part) => (part ? (JSON.parse(part.value) as SupervisionEntry[]) : []));
  return all.slice(-limit).toReversed();
}

async function read(context: Context, kind: SupervisedKind, name: string) {
  // One batch: the lease counts from the engine's time, which `housekeep` returns.
  const [found, { now }] = await Promise.all([
    findDocument(context, kind, name),
    context.run({ verb: "housekeep" }),
  ]);
  return { found: found?.value, now };
}

function describe(kind: SupervisedKind, name: string, stored: Stored, now: number): SupervisedRecord {
  const { count: _, heldUntil, ...rest } = stored;
  const isHeld = heldUntil !== null && heldUntil > now;
  return { kind, name, ...rest, heldUntil, heldFor: isHeld ? heldUntil - now : 0 };
}

function checkKind(kind: unknown): void {
  if (!(SUPERVISED_KINDS as readonly unknown[]).includes(kind))
    throw invalid(`kind must be one of ${SUPERVISED_KINDS.join(", ")}; got ${show(kind)}.`);
}

function checkName(name: unknown): string {
  return checkText(name, "The name", 200);
}

function checkCall(call: SuperviseCall): SuperviseCall {
  checkObject(call, "The call");
  const known = ["kind", "name", "holder", "host", "pid", "queues", "lease", "report", "entries"];
  checkNames(call, known, "supervision");
  checkKind(call.kind);
  checkName(call.name);
  checkText(call.holder, "holder", 200);
  checkText(call.host, "host", 300);
  checkNumber(call.pid, "pid", 0, Number.MAX_SAFE_INTEGER);
  checkNumber(call.lease, "lease", 0, 3_600_000);
  if (!Array.isArray(call.queues) || call.queues.length === 0 || call.queues.length > 100)
    throw invalid(`queues must be 1 to 100 names; got ${show(call.queues)}.`);
  call.queues.forEach(checkQueueName);
  if (typeof call.report !== "string" || !isJson(call.report))
    throw invalid(`report must be JSON; got ${show(call.report)}.`);
  const { entries: given = [] } = call;
  if (!Array.isArray(given) || given.length > PER_DOCUMENT)
    throw invalid(`entries must be an array of at most ${PER_DOCUMENT}; got ${show(given)}.`);
  given.forEach((entry) => checkEntry(call, entry));
  const bytes = byteLength(JSON.stringify(call));
  if (bytes > LIMITS.scheduleBytes)
    throw invalid(
      `A report with its entries may have ${LIMITS.scheduleBytes} bytes; got ${bytes}. Shorten it.`,
    );
  return call;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function checkEntry({ queues }: SuperviseCall, entry: NewEntry): void {
  checkNames(entry, ["type", "queue", "reasons", "from", "to"], "entry");
  if (!SUPERVISION_EVENTS.includes(entry.type))
    throw invalid(`type must be one of ${SUPERVISION_EVENTS.join(", ")}; got ${show(entry.type)}.`);
  if (!queues.includes(entry.queue))
    throw invalid(`queue must be one of the call's; got ${show(entry.queue)}.`);
  const { reasons } = entry;
  if (!Array.isArray(reasons) || reasons.some((each) => typeof each !== "string"))
    throw invalid(`reasons must be an array of texts; got ${show(reasons)}.`);
  for (const size of [entry.from, entry.to])
    if (size !== undefined) checkNumber(size, "The size of a pool", 0, 1_000_000);
  const bytes = byteLength(JSON.stringify(entry));
  if (bytes > ENTRY_BYTES)
    throw invalid(`An entry may have ${ENTRY_BYTES} bytes as JSON; got ${bytes}. Give shorter reasons.`);
}
