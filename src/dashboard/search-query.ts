import { parseDuration } from "../core/time/duration.ts";
import { invalid } from "../core/errors/errors.ts";
import { showMs } from "../core/answer/figures.ts";
import { show } from "../core/errors/show.ts";
import { isTaskId } from "../core/task/task-id.ts";
import { END_STATES, PENDING_STATES, type TaskState } from "../core/task/task.ts";

/** What a search box says, understood. search.ts looks for it. */
export interface SearchQuery {
  states: TaskState[];
  queue?: string;
  id?: string;
  key?: string;
  error?: string;
  worker?: string;
  header?: { name: string; value?: string };
  /** Created at least, and at most, so many milliseconds ago. */
  older?: number;
  newer?: number;
  /** In the payload; case does not matter. */
  words: string[];
}

export const ALL_STATES: readonly TaskState[] = [...PENDING_STATES, ...END_STATES];
const LONGEST = 1_000;
/** `name:value`, `name:"quoted value"`, "quoted text", or a word. */
const PART = /(?:([a-zA-Z]+):)?(?:"((?:[^"\\]|\\.)*)"|(\S+))/g;

const FIELDS = ["state", "queue", "id", "key", "error", "worker", "header", "older", "newer"] as const;
type Field = (typeof FIELDS)[number];

export function parseSearch(text: string): SearchQuery {
  if (text.length > LONGEST) throw invalid(`A search has at most ${LONGEST} characters; got ${text.length}.`);
  const query: SearchQuery = { states: [], words: [] };
  for (const [whole, field, quoted, plain] of text.matchAll(PART)) {
    const value = quoted?.replaceAll(/\\(.)/g, "$1") ?? plain!;
    // Any other name before a colon is part of a text: an address, a time, JSON.
    if (field !== undefined && (FIELDS as readonly string[]).includes(field))
      take(query, field as Field, value);
    else if (isTaskId(whole)) query.id = whole;
    else query.words.push((field === undefined ? value : `${field}:${value}`).toLowerCase());
  }
  if (query.states.length === 0) query.states = [...ALL_STATES];
  return query;
}

function take(query: SearchQuery, field: Field, value: string): void {
  switch (field) {
    case "state":
      for (const state of value.split(",")) query.states.push(checkState(state));
      break;
    case "older":
    case "newer":
      query[field] = parseDuration(value, `${field}:`);
      break;
    case "header": {
      const at = value.indexOf("=");
      query.header = at < 0 ? { name: value } : { name: value.slice(0, at), value: value.slice(at + 1) };
      break;
    }
    case "error":
      query.error = value.toLowerCase();
      break;
    default:
      query[field] = value;
  }
}

function checkState(state: string): TaskState {
  if ((ALL_STATES as readonly string[]).includes(state)) return state as TaskState;
  throw invalid(`state: takes ${ALL_STATES.join(", ")}; got ${show(state)}.`);
}

/** A sentence for people. */
export function describeSearch(query: SearchQuery, queue: string | undefined): string {
  const { states, id, key, error, worker, header, older, newer, words } = query;
  if (id !== undefined) return `The task ${id}.`;
  const which = states.length === ALL_STATES.length ? "Tasks" : `${capital(states.join(", "))} tasks`;
  const parts = [
    queue === undefined ? " of all queues" : ` of ${queue}`,
    key === undefined ? "" : ` with the key ${show(key)}`,
    error === undefined ? "" : ` whose last error contains ${show(error)}`,
    worker === undefined ? "" : ` of a worker called ${show(worker)}`,
    header === undefined
      ? ""
      : ` with the header ${header.name}${header.value === undefined ? "" : ` = ${show(header.value)}`}`,
    older === undefined ? "" : ` added more than ${showMs(older)} ago`,
    newer === undefined ? "" : ` added less than ${showMs(newer)} ago`,
    words.length === 0 ? "" : ` whose payload contains ${words.map((word) => show(word)).join(" and ")}`,
  ];
  return `${which}${parts.join("")}.`;
}

function capital(text: string): string {
  return text[0]!.toUpperCase() + text.slice(1);
}
