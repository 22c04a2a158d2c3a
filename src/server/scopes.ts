import { DibsError, invalid } from "../core/errors.ts";
import { checkQueueName, LONGEST_NAME } from "../core/queue-name.ts";
import { show } from "../core/show.ts";

/** What a token allows: a kind of verb on the queues that a pattern names. `admin` includes the others. */
export const KINDS = ["add", "work", "read", "admin"] as const;
export type Kind = (typeof KINDS)[number];

/** As it is written: `work:emails`, `add:shop.*`, `read:*`. A star stands for any run of characters. */
export type Scope = `${Kind}:${string}`;

const PATTERN = /^[A-Za-z0-9_.:/*-]{1,128}$/;
/** Names are made of names: a topic's queues begin with "topic/", those for verdicts end with "/verify". */
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

/** What somebody who was let in may do. */
export class Grant {
  /** For the audit trail and for people: a token's name. */
  readonly name: string;
  /** False for everybody on a server without tokens: an audit trail cannot say who that was. */
  readonly isToken: boolean;
  /** The same text for all that allow the same. */
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

  /** Some kind of verb is allowed there. To others, what is in the queue does not exist. */
  sees(queue: string): boolean {
    return KINDS.some((kind) => this.allows(kind, queue));
  }

  /** On every queue there is or will be. */
  allowsAll(kind: Kind): boolean {
    return this.#allowedOnAll.has(kind);
  }

  /** Refuses where one of the queues is not covered by one of the kinds. What can be no name is refused first. */
  need(kinds: readonly Kind[], queues: readonly unknown[]): void {
    for (const given of queues) {
      const queue = typeof given === "string" && given.length <= LONGEST ? given : checkQueueName(given);
      if (kinds.some((kind) => this.allows(kind, queue))) continue;
      throw new DibsError(
        "FORBIDDEN",
        `The token ${show(this.name)} does not allow this: it needs the scope ${kinds.map((kind) => `${kind}:${queue}`).join(" or ")}. ` +
          `Ask whoever runs the server for one that has it.`,
      );
    }
  }
}

export const EVERYTHING: readonly Scope[] = ["admin:*"];

function covers(has: Kind, needed: Kind): boolean {
  return has === needed || has === "admin";
}

/**
 * In linear time: each part between two stars is looked for behind the one before it. The first place that is found
 * leaves most to the parts that follow, so that nothing has to be tried again.
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
