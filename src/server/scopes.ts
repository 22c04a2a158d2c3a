import { DibsError, invalid } from "../core/errors/errors.ts";
import { checkQueueName, LONGEST_NAME } from "../core/queue/queue-name.ts";
import { show } from "../core/errors/show.ts";

/** What a token allows: a kind of verb on the queues that match a pattern. `admin` includes the others. */
export const KINDS = ["add", "work", "read", "admin"] as const;
export type Kind = (typeof KINDS)[number];

/** As written: `work:emails`, `add:shop.*`, `read:*`. A star matches any sequence of characters. */
export type Scope = `${Kind}:${string}`;

const PATTERN = /^[A-Za-z0-9_.:/*-]{1,128}$/;
/**
 * Some queue names contain other names: those of topics begin with "topic/", verification queues end with "/verify".
 */
const LONGEST = 2 * LONGEST_NAME;

export function parseScope(text: string): Scope {
  const [kind, ...rest] = text.split(":");
  const pattern = rest.join(":");
  if (!(KINDS as readonly string[]).includes(kind!) || !PATTERN.test(pattern)) {
    throw invalid(
      `A scope is ${KINDS.join(", ")} and a pattern of queue names, such as work:emails, ` +
        `add:shop.* or read:*; got ${show(text)}.`,
    );
  }
  return text as Scope;
}

/** A refusal names so many missing scopes: a run can need one for each of its stages. */
const MOST_NAMED = 5;

/** What a connected client may do. */
export class Grant {
  /** For the audit log and for people: the token's name. */
  readonly name: string;
  /** False on a server without tokens: then the audit log cannot say who it was. */
  readonly isToken: boolean;
  /** The same text for all grants that allow the same. */
  readonly scopes: string;
  readonly #rules: { kind: Kind; matches: (name: string) => boolean; isAll: boolean }[];
  readonly #allowedOnAll: ReadonlySet<Kind>;

  constructor(name: string, scopes: readonly Scope[], isToken = true) {
    this.name = name;
    this.isToken = isToken;
    this.scopes = scopes.toSorted().join(" ");
    this.#rules = scopes.map((scope) => {
      const [kind, ...rest] = scope.split(":");
      const pattern = rest.join(":");
      return { kind: kind as Kind, matches: matcherOf(pattern), isAll: pattern === "*" };
    });
    const isOnAll = (kind: Kind) => this.#rules.some((rule) => covers(rule.kind, kind) && rule.isAll);
    this.#allowedOnAll = new Set(KINDS.filter(isOnAll));
  }

  allows(kind: Kind, queue: string): boolean {
    return this.#rules.some((rule) => covers(rule.kind, kind) && rule.matches(queue));
  }

  /** Whether any kind of verb is allowed there. For other tokens, what is in the queue does not exist. */
  sees(queue: string): boolean {
    return KINDS.some((kind) => this.allows(kind, queue));
  }

  /** On every queue, existing or future. */
  allowsAll(kind: Kind): boolean {
    return this.#allowedOnAll.has(kind);
  }

  /** Refuses if one of the queues is not covered by one of the kinds. Invalid names are refused first. */
  need(kinds: readonly Kind[], queues: readonly unknown[]): void {
    const missing = new Set<string>();
    for (const given of queues) {
      const queue = typeof given === "string" && given.length <= LONGEST ? given : checkQueueName(given);
      if (!kinds.some((kind) => this.allows(kind, queue))) missing.add(queue);
    }
    if (missing.size === 0) return;
    const named = [...missing].slice(0, MOST_NAMED);
    const scopes = named.map((queue) => kinds.map((kind) => `${kind}:${queue}`).join(" or "));
    if (missing.size > named.length) scopes.push(`${missing.size - named.length} more`);
    throw new DibsError(
      "FORBIDDEN",
      `The token ${show(this.name)} does not allow this: it needs the scope ${scopes.join(", and ")}. ` +
        `Ask the operator of the server for one that has it.`,
    );
  }
}

export const EVERYTHING: readonly Scope[] = ["admin:*"];

function covers(has: Kind, needed: Kind): boolean {
  return has === needed || has === "admin";
}

/**
 * Takes linear time: each part between two stars is searched behind the previous one. The first match leaves most room
 * for the parts that follow, so no backtracking is needed.
 */
function matcherOf(pattern: string): (name: string) => boolean {
  const [head, ...parts] = pattern.split("*") as [string, ...string[]];
  const tail = parts.pop();
  if (tail === undefined) return (name) => name === pattern;
  return (name) => {
    const end = name.length - tail.length;
    let at = head.length;
    if (end < at || !name.startsWith(head) || !name.endsWith(tail)) return false;
    for (const part of parts) {
      const found = name.indexOf(part, at);
      if (found < 0) return false;
      at = found + part.length;
    }
    return at <= end;
  };
}
