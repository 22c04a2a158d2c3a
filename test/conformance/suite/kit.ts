import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import type { ErrorCode } from "../../../src/core/errors/errors.ts";
import { eachEvent } from "../../each-event.ts";
import type { DibsEvent } from "../../../src/core/event/events.ts";
import type { ClaimNotice, ClaimCall } from "../../../src/core/task/claim-call.ts";
import type { Port } from "../../../src/core/port.ts";
import type {
  AddedTask,
  Body,
  ClaimedTask,
  NewTask,
  TaskError,
  TaskState,
} from "../../../src/core/task/task.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import type { TransferStore } from "../../../src/engine/transfer.ts";
import type { CallersTransaction, CleanUp, Harness, Opened } from "./harness.ts";

/** Helpers that the cases are written with. Nothing here waits for real time: cases await what they need. */

/** The queue of a case that needs only one. */
export const QUEUE = "work";
export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;
/** Housekeeping finds what no hint reported within this time. */
export const SAFETY_POLL = 2 * SECOND;
/** Tasks past their retention are removed within this time. */
export const HOUSEKEEPING = 20 * SECOND;

export interface World {
  port: Port;
  clock: ManualClock;
  /** When the clock started: the engine's time while no time has passed. */
  startedAt: number;
  /** The store uses a server's clock: see Harness. */
  serverTime: boolean;
  /** Stops the heartbeats of this opener's workers. The returned function resumes them. */
  hang: () => () => void;
  /** Begins a transaction of the caller. */
  begin: () => Promise<CallersTransaction>;
  /** Waits until other processes' commits are known here, if the store does not notify. */
  awaitHints: () => Promise<void>;
  /** The store of this case, opened for export, import and move. */
  transfer: () => Promise<TransferStore>;
  /** Opens the same store again. */
  another: () => Promise<World>;
}

export interface Start {
  /** Creates a store for one case. */
  (): Promise<World>;
  /** Creates one store for all cases of a group: for cases that do not affect each other. */
  together(): () => World;
}

export function starter(harness: Harness): Start {
  const start = (): Promise<World> => openWorld(harness, (undo) => onTestFinished(undo));
  return Object.assign(start, { together: () => startTogether(harness) });
}

function startTogether(harness: Harness): () => World {
  const undoing: (() => Promise<void>)[] = [];
  let world: World | undefined;
  beforeAll(async () => {
    world = await openWorld(harness, (undo) => undoing.unshift(undo));
  });
  afterAll(async () => {
    for (const undo of undoing) await undo();
  });
  return () => world!;
}

async function openWorld(harness: Harness, cleanUp: CleanUp): Promise<World> {
  const clock = new ManualClock();
  return worldOf(harness, await harness.open(clock, cleanUp), clock, cleanUp);
}

function worldOf(harness: Harness, opened: Opened, clock: ManualClock, cleanUp: CleanUp): World {
  cleanUp(() => opened.port.close());
  return {
    port: opened.port,
    clock,
    startedAt: clock.read().wall,
    serverTime: harness.serverTime ?? false,
    hang: () => opened.hang(),
    begin: () => opened.begin!(),
    transfer: async () => {
      const transfer = await opened.transfer();
      cleanUp(() => transfer.close());
      return transfer;
    },
    awaitHints: () => (harness.withoutHints ? clock.advance(SAFETY_POLL) : Promise.resolve()),
    another: async () => worldOf(harness, await opened.another!(), clock, cleanUp),
  };
}

// ── Tasks and claims ──────────────────────────────────────────────────────────────────────────────────────

export function newTask(fields: Partial<NewTask> = {}): NewTask {
  return { queue: QUEUE, data: "{}", ...fields };
}

export async function addOne(port: Port, fields: Partial<NewTask> = {}): Promise<AddedTask> {
  const [added] = await port.add([newTask(fields)]);
  return added!;
}

/** The payloads are the names, so that the order is readable. */
export async function addNamed(
  port: Port,
  names: string[],
  fields: Partial<NewTask> = {},
): Promise<string[]> {
  const added = await port.add(names.map((name) => newTask({ ...fields, data: name })));
  return added.map(({ id }) => id);
}

export function numbered(count: number, prefix = ""): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`);
}

export async function claim(port: Port, request: Partial<ClaimCall> = {}): Promise<ClaimedTask[]> {
  const { tasks } = await port.claim({ queues: [QUEUE], max: 1, worker: "hand", wait: 0, ...request });
  return tasks;
}

export async function claimOne(port: Port, request: Partial<ClaimCall> = {}): Promise<ClaimedTask> {
  const tasks = await claim(port, request);
  expect(tasks).toHaveLength(1);
  return tasks[0]!;
}

/** A claim that waits as long as allowed. */
export function waiting(port: Port, request: Partial<ClaimCall> = {}): Promise<ClaimedTask[]> {
  return claim(port, { wait: MINUTE, ...request });
}

/** The payloads of all tasks that can be claimed now, in the order of the claim. */
export async function claimNames(port: Port, request: Partial<ClaimCall> = {}): Promise<string[]> {
  return namesOf(await claim(port, { max: 1_000, ...request }));
}

export function namesOf(tasks: { data: Body }[]): string[] {
  return tasks.map(({ data }) => data as string);
}

export function idsOf(tasks: { id: string }[]): string[] {
  return tasks.map(({ id }) => id);
}

export function failure(message = "it broke", name = "Error"): TaskError {
  return { name, message, stack: `${name}: ${message}\n    at work` };
}

export async function ack(
  port: Port,
  held: ClaimedTask,
  result: Body | null = null,
  adds?: NewTask[],
): Promise<TaskState> {
  return (await port.settle(held, { kind: "ack", result, ...(adds && { adds }) })).state;
}

/** Without backoff, unless a delay is given. */
export async function nack(port: Port, held: ClaimedTask, delay = 0, error = failure()): Promise<TaskState> {
  return (await port.settle(held, { kind: "nack", error, delay })).state;
}

export async function nackWithBackoff(port: Port, held: ClaimedTask): Promise<TaskState> {
  return (await port.settle(held, { kind: "nack", error: failure() })).state;
}

export async function reject(port: Port, held: ClaimedTask, error = failure()): Promise<TaskState> {
  return (await port.settle(held, { kind: "reject", error })).state;
}

export async function release(
  port: Port,
  held: ClaimedTask,
  { started = true, delay }: { started?: boolean; delay?: number } = {},
): Promise<TaskState> {
  return (await port.settle(held, { kind: "release", started, delay })).state;
}

/** Adds a task and rejects it. */
export async function makeDead(
  port: Port,
  fields: Partial<NewTask> = {},
  error = failure(),
): Promise<string> {
  const { id } = await addOne(port, fields);
  const held = await claimOne(port, { queues: [fields.queue ?? QUEUE] });
  expect(held.id).toBe(id);
  await reject(port, held, error);
  return id;
}

export async function stateOf(port: Port, id: string): Promise<TaskState> {
  return (await port.task(id)).state;
}

/** The number of tasks per state, for states that occur. */
export async function depths(port: Port, queue = QUEUE): Promise<Partial<Record<TaskState, number>>> {
  const { depth } = await port.stats(queue);
  return Object.fromEntries(Object.entries(depth).filter(([, count]) => count > 0));
}

// ── Refusals and pending answers ──────────────────────────────────────────────────────────────────────

/** The call fails with this code and a message that contains the words. A port never throws synchronously. */
export async function refused(
  call: () => Promise<unknown>,
  code: ErrorCode,
  ...words: string[]
): Promise<void> {
  const error = await call().then(
    (value) => expect.fail(`expected ${code}, got ${JSON.stringify(value)}`),
    (error: unknown) => error as Error & { code?: string; retryable?: boolean },
  );
  expect(error).toBeInstanceOf(Error);
  expect({ code: error.code, message: error.message }).toEqual({ code, message: expect.any(String) });
  expect(error.retryable).toBeTypeOf("boolean");
  for (const word of words) expect(error.message).toContain(word);
}

/** Whether the promise is still pending after all work in progress is done. */
export async function isPending(clock: ManualClock, answer: Promise<unknown>): Promise<boolean> {
  let pending = true;
  const settled = (): void => void (pending = false);
  answer.then(settled, settled);
  await clock.advance(0);
  return pending;
}

/**
 * Lets a long time pass, most of it asleep, which is cheap to simulate. Leases end meanwhile by a server's clock only.
 */
export async function passLong(clock: ManualClock, ms: number): Promise<void> {
  clock.sleep(ms - HOUSEKEEPING);
  await clock.advance(HOUSEKEEPING);
}

// ── Notices and events ────────────────────────────────────────────────────────────────────────────────

/** Collects items, and returns them one by one to the case that awaits them. */
export class Inbox<T> {
  readonly all: T[] = [];
  #read = 0;
  #wake: (() => void) | undefined;

  push(item: T): void {
    this.all.push(item);
    this.#wake?.();
  }

  async next(): Promise<T> {
    while (this.#read >= this.all.length) await new Promise<void>((resolve) => (this.#wake = resolve));
    return this.all[this.#read++]!;
  }
}

export interface Joined {
  id: string;
  session: number;
  notices: Inbox<ClaimNotice>;
  /** Claims with its session. */
  claim(request?: Partial<ClaimCall>): Promise<ClaimedTask[]>;
  claimOne(request?: Partial<ClaimCall>): Promise<ClaimedTask>;
}

export async function joinWorker(
  port: Port,
  id: string,
  options: { queues?: string[]; lease?: number; name?: string } = {},
): Promise<Joined> {
  const { queues = [QUEUE], lease = 30 * SECOND, name = id } = options;
  const notices = new Inbox<ClaimNotice>();
  const worker = { id, name, queues, concurrency: 1, host: "host", pid: 1 };
  const session = await port.join(worker, lease, (notice) => notices.push(notice));
  const own = { queues, worker: id, session };
  return {
    id,
    session,
    notices,
    claim: (request) => claim(port, { ...own, ...request }),
    claimOne: (request) => claimOne(port, { ...own, ...request }),
  };
}

/** Listens from now until the case ends. */
export function listen(port: Port): AsyncIterableIterator<DibsEvent> {
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  return eachEvent(port.events(stop.signal));
}

/** The events up to the first of the given type. */
export async function eventsUntil(
  events: AsyncIterator<DibsEvent>,
  type: DibsEvent["type"],
): Promise<DibsEvent[]> {
  const seen: DibsEvent[] = [];
  for (;;) {
    const { value, done } = await events.next();
    if (done) return seen;
    seen.push(value);
    if (value.type === type) return seen;
  }
}
