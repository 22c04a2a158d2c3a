import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import type { ErrorCode } from "../../../src/core/errors.ts";
import { eachEvent } from "../../../src/core/event-page.ts";
import type { DibsEvent } from "../../../src/core/events.ts";
import type { ClaimNotice, ClaimCall, Port } from "../../../src/core/port.ts";
import type { AddedTask, Body, ClaimedTask, NewTask, TaskError, TaskState } from "../../../src/core/task.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import type { TransferStore } from "../../../src/engine/transfer.ts";
import type { CallersTransaction, CleanUp, Harness, Opened } from "./harness.ts";

/** The words the cases are written in. Nothing here waits for real time: cases await what they wait for. */

/** The queue of a case that needs only one. */
export const QUEUE = "work";
export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;
/** What a hint does not tell, housekeeping finds within this. */
export const SAFETY_POLL = 2 * SECOND;
/** Within this, what is past its retention is removed. */
export const HOUSEKEEPING = 20 * SECOND;

export interface World {
  port: Port;
  clock: ManualClock;
  /** When the clock was started: the engine's now, as long as no time has passed. */
  startedAt: number;
  /** The store's time is a server's: see Harness. */
  serverTime: boolean;
  /** From now on the workers of this opener give no sign of life; the answer ends that. */
  hang: () => () => void;
  /** A transaction of the caller's own. */
  begin: () => Promise<CallersTransaction>;
  /** Until what others have committed is known here, where it is not told. */
  heard: () => Promise<void>;
  /** The store of this case, opened for export, import and move. */
  transfer: () => Promise<TransferStore>;
  /** The same store, opened once more. */
  another: () => Promise<World>;
}

export interface Start {
  /** Makes a case its own store. */
  (): Promise<World>;
  /** Makes all cases of the group one store: for those that keep out of each other's way. */
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
    heard: () => (harness.isDeaf ? clock.advance(SAFETY_POLL) : Promise.resolve()),
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

/** Their payloads are the names, so that an order can be read. */
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

export async function claim(port: Port, wish: Partial<ClaimCall> = {}): Promise<ClaimedTask[]> {
  const { tasks } = await port.claim({ queues: [QUEUE], max: 1, worker: "hand", wait: 0, ...wish });
  return tasks;
}

export async function claimOne(port: Port, wish: Partial<ClaimCall> = {}): Promise<ClaimedTask> {
  const tasks = await claim(port, wish);
  expect(tasks).toHaveLength(1);
  return tasks[0]!;
}

/** A claim that waits as long as it may. */
export function waiting(port: Port, wish: Partial<ClaimCall> = {}): Promise<ClaimedTask[]> {
  return claim(port, { wait: MINUTE, ...wish });
}

/** The payloads of what can be claimed now, in the order it is handed out. */
export async function claimNames(port: Port, wish: Partial<ClaimCall> = {}): Promise<string[]> {
  return namesOf(await claim(port, { max: 1_000, ...wish }));
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

/** Without the backoff, unless a delay is named. */
export async function nack(port: Port, held: ClaimedTask, delay = 0, error = failure()): Promise<TaskState> {
  return (await port.settle(held, { kind: "nack", error, delay })).state;
}

export async function nackWithBackoff(port: Port, held: ClaimedTask): Promise<TaskState> {
  return (await port.settle(held, { kind: "nack", error: failure() })).state;
}

export async function reject(port: Port, held: ClaimedTask, error = failure()): Promise<TaskState> {
  return (await port.settle(held, { kind: "reject", error })).state;
}

export async function release(port: Port, held: ClaimedTask, started = true): Promise<TaskState> {
  return (await port.settle(held, { kind: "release", started })).state;
}

/** Adds a task and has it rejected. */
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

/** How many tasks of a queue are in which state; only states that occur. */
export async function depths(port: Port, queue = QUEUE): Promise<Partial<Record<TaskState, number>>> {
  const { depth } = await port.stats(queue);
  return Object.fromEntries(Object.entries(depth).filter(([, count]) => count > 0));
}

// ── What is refused, and what is not yet answered ─────────────────────────────────────────────────────────

/** The call is answered with an error of this code, whose text contains the words. A port never throws. */
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

/** Whether it is still unanswered once everything under way is done. */
export async function isPending(clock: ManualClock, answer: Promise<unknown>): Promise<boolean> {
  let pending = true;
  const settled = (): void => void (pending = false);
  answer.then(settled, settled);
  await clock.advance(0);
  return pending;
}

/** A long time, most of it asleep, at a fraction of the cost. Leases run out meanwhile by a server's clock, and not by others. */
export async function passLong(clock: ManualClock, ms: number): Promise<void> {
  clock.sleep(ms - HOUSEKEEPING);
  await clock.advance(HOUSEKEEPING);
}

// ── What is told ──────────────────────────────────────────────────────────────────────────────────────────

/** Takes what is told, and hands it on one by one to whoever awaits it. */
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
  /** Its claims hang on its session. */
  claim(wish?: Partial<ClaimCall>): Promise<ClaimedTask[]>;
  claimOne(wish?: Partial<ClaimCall>): Promise<ClaimedTask>;
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
    claim: (wish) => claim(port, { ...own, ...wish }),
    claimOne: (wish) => claimOne(port, { ...own, ...wish }),
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
