import {
  checkSameQueue,
  type ChildEnd,
  decodeSpawned,
  isOrderName,
  type NewChild,
  type SpawnedTask,
  spawnName,
} from "../core/handler/children.ts";
import { childrenSignal } from "../core/handler/children-signal.ts";
import { type Duration, parseDuration } from "../core/time/duration.ts";
import { DibsError, invalid } from "../core/errors/errors.ts";
import { byteLength, LIMITS } from "../core/input/limits.ts";
import { checkNames, checkObject, checkText } from "../core/input/options.ts";
import type { Port } from "../core/port.ts";
import { show } from "../core/errors/show.ts";
import { taskNotFound } from "../core/errors/task-not-found.ts";
import { type ClaimedTask, isEnd, type NewTask } from "../core/task/task.ts";
import { Parked, type Steps } from "./steps.ts";

/** A queue in which a handler can spawn children: the handle of any queue. `Handle` is what the handler gets. */
export interface SpawnTarget<In, Options, Handle> {
  readonly name: string;
  /** Never called: it carries the types, because published types lack the internal members below. */
  "~spawns"?(data: In, options?: Options): Handle;
  /** @internal Checks and encodes the data. Stores nothing. */
  prepare(data: In, options?: Options): Promise<NewTask>;
  /** @internal Sends the queue's policy, if it was not sent yet. */
  declare(): Promise<void>;
  /** @internal */
  childHandle(spawned: SpawnedTask, name: string | null): Handle;
}

/** How long to wait for children. */
export interface WaitForChildrenOptions {
  timeout?: Duration | undefined;
}

/** What a handler got from spawn(). */
export interface SpawnedHandle {
  readonly id: string;
}

/** Payloads of one call. A message to a server has a limit, and most characters of a payload may be escaped in it. */
const MOST_BYTES = 4 * 1024 * 1024;

interface Batch {
  children: NewChild[];
  bytes: number;
  answers: Promise<SpawnedTask[]>;
}

/** The children of one task, for Task. A handler that is called again gets the children that it has spawned before. */
export class Children {
  readonly #port: Port;
  readonly #task: ClaimedTask;
  readonly #steps: Steps;
  /** How often this call of the handler has spawned without a name. The number serves as the name. */
  #unnamed = 0;
  /** By name, in the order of the calls: a child that is requested twice is spawned once. */
  readonly #spawned = new Map<string, Promise<SpawnedTask>>();
  /** Spawns that are not answered yet. */
  readonly #open = new Set<Promise<SpawnedTask>>();
  /** What is sent in one call: the spawns of this moment. */
  #batch: Batch | undefined;

  constructor(port: Port, task: ClaimedTask, steps: Steps) {
    this.#port = port;
    this.#task = task;
    this.#steps = steps;
  }

  /** Resolves when all spawns are answered; undefined if they are. */
  get pending(): Promise<unknown> | undefined {
    return this.#open.size === 0 ? undefined : Promise.allSettled(this.#open);
  }

  /** Not async before the child has its number: spawns are told apart by the order of their calls. */
  spawn<In, Options, Handle>(
    queue: SpawnTarget<In, Options, Handle>,
    data: In,
    options: (Options & { name?: string | undefined }) | undefined,
  ): Promise<Handle> {
    let given: string | undefined;
    let rest: Options | undefined;
    try {
      if (typeof queue?.childHandle !== "function")
        throw invalid(
          `task.spawn() takes a queue handle first, as in task.spawn(dibs.queue("parts"), data).`,
        );
      ({ given, rest } = withoutName(options));
    } catch (error) {
      return Promise.reject(error);
    }
    const name = given ?? spawnName(++this.#unnamed);
    let spawned = this.#spawned.get(name);
    if (!spawned) {
      spawned = this.#spawn(name, queue, data, rest);
      this.#spawned.set(name, spawned);
      this.#watch(name, spawned);
    }
    return spawned.then((child) => {
      checkSameQueue(given ?? null, queue.name, child);
      return queue.childHandle(child, given ?? null);
    });
  }

  #watch(name: string, spawned: Promise<SpawnedTask>): void {
    this.#open.add(spawned);
    spawned.then(
      () => this.#open.delete(spawned),
      () => {
        this.#open.delete(spawned);
        // The handler may spawn again in the same attempt.
        this.#spawned.delete(name);
      },
    );
  }

  async #spawn<In, Options, Handle>(
    name: string,
    queue: SpawnTarget<In, Options, Handle>,
    data: In,
    options: Options | undefined,
  ): Promise<SpawnedTask> {
    const stored = (await this.#steps.stored()).get(`child ${name}`);
    if (stored) return { ...decodeSpawned(stored.value), state: "ready", existing: true };
    const task = await queue.prepare(data, options);
    // Call both without an await between them, so that the queue's policy commits with its first task.
    const declared = queue.declare();
    const [spawned] = await Promise.all([this.#send({ name, task }), declared]);
    return spawned;
  }

  /** The spawns of one moment are one call, which stores all of them or none; several if they are large. */
  async #send(child: NewChild): Promise<SpawnedTask> {
    const bytes = byteLength(child.task.data);
    if (this.#batch && this.#batch.bytes + bytes > MOST_BYTES) this.#batch = undefined;
    const batch = (this.#batch ??= this.#begin());
    batch.bytes += bytes;
    const index = batch.children.push(child) - 1;
    return (await batch.answers)[index]!;
  }

  #begin(): Batch {
    const children: NewChild[] = [];
    // After the promises that are about to resolve: handlers spawn many children at once.
    const ready = new Promise<void>((resolve) => {
      process.nextTick(resolve);
    });
    const answers = ready.then(() => {
      if (this.#batch?.children === children) this.#batch = undefined;
      return this.#port.spawn(this.#task, children);
    });
    return { children, bytes: 0, answers };
  }

  /** The ends of these children, or of all that this call of the handler has spawned so far, in that order. */
  async ends(
    handles: readonly SpawnedHandle[] | undefined,
    options: WaitForChildrenOptions,
  ): Promise<ChildEnd[]> {
    checkNames(options, ["timeout"], "waitForChildren");
    const timeout = options.timeout === undefined ? null : parseDuration(options.timeout, "timeout");
    const spawned = await Promise.all([...this.#spawned.values()]);
    const wanted = handles === undefined ? spawned : chosen(spawned, handles);
    if (wanted.length === 0) return [];
    const found = await this.#fetch(wanted);
    if (found) return found;
    const signal = childrenSignal(wanted.map(({ n }) => n));
    if ((await this.#steps.stored()).has(`timeout ${signal}`))
      throw new DibsError(
        "TIMEOUT",
        `The children of task ${this.#task.id} have not ended in time. They continue; wait again, or cancel them.`,
      );
    this.#steps.waiting ??= { signal, timeout };
    throw new Parked("its children have ended");
  }

  /** Undefined as soon as one is found that has not ended. */
  async #fetch(wanted: readonly SpawnedTask[]): Promise<ChildEnd[] | undefined> {
    const numbers = wanted.map(({ n }) => n);
    const last = Math.max(...numbers);
    const found = new Map<string, ChildEnd>();
    const isWanted = new Set(wanted.map(({ id }) => id));
    for (let after: number | null = Math.min(...numbers) - 1; after !== null && after < last;) {
      const page = await this.#port.children(this.#task.id, { after, ends: true });
      for (const child of page.children as ChildEnd[]) {
        if (!isWanted.has(child.id)) continue;
        if (!isEnd(child.state)) return undefined;
        found.set(child.id, child);
      }
      after = page.next;
    }
    return wanted.map(({ id }) => {
      const end = found.get(id);
      if (!end) throw taskNotFound(id);
      return end;
    });
  }
}

function withoutName<Options>(options: (Options & { name?: string | undefined }) | undefined): {
  given: string | undefined;
  rest: Options | undefined;
} {
  if (options === undefined) return { given: undefined, rest: undefined };
  checkObject(options, "The options of spawn");
  const { name, ...rest } = options;
  if (name === undefined) return { given: undefined, rest: rest as Options };
  checkText(name, "A child's name", LIMITS.stepName);
  if (isOrderName(name))
    throw invalid(`Names that begin with "spawn:" belong to children without a name; got ${show(name)}.`);
  return { given: name, rest: rest as Options };
}

function chosen(spawned: readonly SpawnedTask[], handles: readonly SpawnedHandle[]): SpawnedTask[] {
  if (!Array.isArray(handles))
    throw invalid(
      `waitForChildren() takes an array of children, as spawn() returned them; got ${show(handles)}.`,
    );
  const byId = new Map(spawned.map((child) => [child.id, child]));
  return handles.map((handle) => {
    const child = byId.get(handle?.id);
    if (!child)
      throw invalid(
        `waitForChildren() takes children that this call of the handler has spawned; got ${show(handle)}.`,
      );
    return child;
  });
}
