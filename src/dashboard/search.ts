import { AnswerSize, countFitting, sizeOfTask } from "../core/answer/answer-size.ts";
import { invalid, isDibsError } from "../core/errors/errors.ts";
import { everyItem } from "../core/answer/every-item.ts";
import type { Port } from "../core/port.ts";
import { show } from "../core/errors/show.ts";
import type { TaskRecord, TaskState } from "../core/task/task.ts";
import type { SearchPage } from "./contract.ts";
import { describeSearch, parseSearch, type SearchQuery } from "./search-query.ts";

/** Tasks that one call compares: a search over millions takes many calls, and each is short. */
const MOST_LOOKED = 5_000;
const PAGE = 500;

export interface Search {
  q: string;
  queue?: string | undefined;
  limit: number;
  after?: string | undefined;
}

/** A page of the search, with its tasks as the store has them. */
export interface Found extends Omit<SearchPage, "tasks"> {
  tasks: TaskRecord[];
}

/** Where a search continues. `after`: within the tasks of that state. */
interface Place {
  queue: string;
  state: TaskState;
  after?: string;
}

/**
 * Looks for tasks in the queues that the port's caller may read, queue by queue and state by state. There is no index:
 * each task is compared, and the answer says how many were.
 */
export async function searchTasks(port: Port, search: Search): Promise<Found> {
  const query = parseSearch(search.q);
  const queue = search.queue ?? query.queue;
  const text = describeSearch(query, queue);
  if (query.id !== undefined) return findOne(port, query.id, text);
  const all = await everyItem((page) => port.queues({ ...page, stats: true, queue }));
  const of = all
    .flatMap(({ stats }) => query.states.map((state) => stats!.depth[state]))
    .reduce((sum, count) => sum + count, 0);
  const places = all.flatMap(({ name, stats }) =>
    query.states.filter((state) => stats!.depth[state] > 0).map((state) => ({ queue: name, state })),
  );
  const walk = new Walk(port, query, startAt(places, search.after));
  const tasks = await walk.find(search.limit);
  const { next, looked, shortened } = walk;
  return {
    tasks,
    next: next && encode(next),
    searched: {
      ...{ text, looked, of, states: query.states, queues: all.length, shortened },
      until: next && { queue: next.queue, state: next.state },
    },
  };
}

/** Every match, for bulk jobs. */
export async function* everyMatch(
  port: Port,
  search: Omit<Search, "limit" | "after">,
): AsyncGenerator<TaskRecord> {
  let after: string | undefined;
  do {
    const page = await searchTasks(port, { ...search, limit: PAGE, after });
    yield* page.tasks;
    after = page.next ?? undefined;
  } while (after !== undefined);
}

class Walk {
  readonly #port: Port;
  readonly #query: SearchQuery;
  readonly #places: Place[];
  readonly #size = new AnswerSize();
  looked = 0;
  shortened = 0;
  next: Place | null = null;

  constructor(port: Port, query: SearchQuery, places: Place[]) {
    this.#port = port;
    this.#query = query;
    this.#places = places;
  }

  async find(limit: number): Promise<TaskRecord[]> {
    const found: TaskRecord[] = [];
    for (const { queue, state, ...from } of this.#places) {
      let { after } = from;
      do {
        const room = limit - found.length;
        if (room === 0 || this.looked >= MOST_LOOKED || this.#size.isFull)
          return this.#stopAt({ queue, state, after }, found);
        const most = this.#isPlain ? room : Math.min(PAGE, MOST_LOOKED - this.looked);
        const page = await this.#port.list({ queue, state, after, limit: Math.min(most, PAGE) });
        const matching = (await this.#matching(page.tasks)).slice(0, room);
        const taken = this.#fitting(matching);
        found.push(...taken);
        // The page of results is full in the middle of this one: the next begins behind its last task.
        const isFull = taken.length === room || this.#size.isFull;
        const size = isFull ? page.tasks.indexOf(taken.at(-1)!) + 1 : page.tasks.length;
        if (size === 0 && isFull) return this.#stopAt({ queue, state, after }, found);
        const isCut = size < page.tasks.length;
        const { next } = isCut ? await this.#port.list({ queue, state, after, limit: size }) : page;
        this.looked += size;
        after = next ?? undefined;
      } while (after !== undefined);
    }
    return found;
  }

  #stopAt(
    { queue, state, after }: Omit<Place, "after"> & { after: string | undefined },
    found: TaskRecord[],
  ): TaskRecord[] {
    this.next = { queue, state, ...(after !== undefined && { after }) };
    return found;
  }

  /** Those that still fit into the answer. */
  #fitting(tasks: TaskRecord[]): TaskRecord[] {
    const taken = tasks.slice(0, countFitting(tasks, sizeOfTask, this.#size));
    for (const task of taken) this.#size.add(sizeOfTask(task));
    if (taken.length < tasks.length) this.#size.close();
    return taken;
  }

  /** Every task of the state matches. */
  get #isPlain(): boolean {
    const { key, error, worker, header, older, newer, words } = this.#query;
    return (
      words.length === 0 && [key, error, worker, header, older, newer].every((each) => each === undefined)
    );
  }

  async #matching(tasks: TaskRecord[]): Promise<TaskRecord[]> {
    const now = this.#port.clock.read().wall;
    const likely = tasks.filter((task) => this.#mayMatch(task, now));
    const { error } = this.#query;
    if (error === undefined) return likely;
    const hits = await Promise.all(likely.map(async (task) => (await this.#lastError(task)).includes(error)));
    return likely.filter((_, at) => hits[at]);
  }

  #mayMatch(task: TaskRecord, now: number): boolean {
    const { key, worker, header, older = 0, newer = Infinity, words, error } = this.#query;
    if (words.length > 0 && task.truncated?.data !== undefined) this.shortened++;
    const age = now - task.createdAt;
    if (age < older || age > newer) return false;
    if (key !== undefined && task.groupKey !== key && task.idempotencyKey !== key) return false;
    if (worker !== undefined && !(task.worker ?? "").startsWith(worker)) return false;
    if (header && !(header.name in task.headers)) return false;
    if (header?.value !== undefined && task.headers[header.name] !== header.value) return false;
    // A task that never failed has no error.
    if (error !== undefined && task.error === null && task.attempt < 2) return false;
    if (words.length === 0) return true;
    const data = typeof task.data === "string" ? task.data.toLowerCase() : "";
    return words.every((word) => data.includes(word));
  }

  async #lastError(task: TaskRecord): Promise<string> {
    const error =
      task.error ?? (await this.#port.history(task.id)).findLast((attempt) => attempt.error !== null)?.error;
    return error ? `${error.name}: ${error.message}`.toLowerCase() : "";
  }
}

async function findOne(port: Port, id: string, text: string): Promise<Found> {
  const searched = { text, looked: 1, of: 1, states: [], queues: 1, until: null, shortened: 0 };
  try {
    return { tasks: [await port.task(id)], next: null, searched };
  } catch (error) {
    if (!isDibsError(error) || (error.code !== "TASK_NOT_FOUND" && error.code !== "FORBIDDEN")) throw error;
    return { tasks: [], next: null, searched };
  }
}

/** The places from the cursor on. A queue that is gone since then is skipped. */
function startAt(places: Place[], after: string | undefined): Place[] {
  if (after === undefined) return places;
  const from = decode(after);
  const isBefore = (place: Place): boolean => place.queue < from.queue;
  const rest = places.filter((place) => !isBefore(place));
  const at = rest.findIndex(({ queue, state }) => queue === from.queue && state === from.state);
  if (at < 0) return rest.filter(({ queue }) => queue !== from.queue);
  return [from, ...rest.slice(at + 1)];
}

function encode(place: Place): string {
  return Buffer.from(JSON.stringify(place)).toString("base64url");
}

function decode(text: string): Place {
  try {
    const { queue, state, after } = JSON.parse(Buffer.from(text, "base64url").toString()) as Place;
    if (typeof queue === "string" && typeof state === "string")
      return { queue, state, ...(after !== undefined && { after }) };
  } catch {
    // Reported below.
  }
  throw invalid(`after must be the next of an earlier page of the same search; got ${show(text)}.`);
}
