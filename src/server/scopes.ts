import { DibsError, invalid } from "../core/errors.ts";
import { show } from "../core/show.ts";

/** What a token allows: a kind of verb on the queues that a pattern names. `admin` includes the others. */
export const KINDS = ["add", "work", "read", "admin"] as const;
export type Kind = (typeof KINDS)[number];

/** As it is written: `work:emails`, `add:shop.*`, `read:*`. A star stands for any run of characters. */
export type Scope = `${Kind}:${string}`;

const PATTERN = /^[A-Za-z0-9_.:/*-]{1,128}$/;
/** Each star may be tried at every character of a name. */
const MOST_STARS = 4;

export function parseScope(text: string): Scope {
  const [kind, ...rest] = text.split(":");
  const pattern = rest.join(":");
  if (!(KINDS as readonly string[]).includes(kind!) || !isPattern(pattern)) {
    throw invalid(
      `A scope is ${KINDS.join(", ")} and a pattern of queue names with at most ${MOST_STARS} stars, such as work:emails, ` +
        `add:shop.* or read:*; got ${show(text)}.`,
    );
  }
  return text as Scope;
}

function isPattern(pattern: string): boolean {
  return PATTERN.test(pattern) && pattern.split("*").length <= MOST_STARS + 1;
}

/** What somebody who was let in may do. */
export class Grant {
  /** For the audit trail and for people: a token's name. */
  readonly name: string;
  readonly #rules: { kind: Kind; matches: RegExp; isAll: boolean }[];
  readonly #allowedOnAll: ReadonlySet<Kind>;

  constructor(name: string, scopes: readonly Scope[]) {
    this.name = name;
    this.#rules = scopes.map((scope) => {
      const [kind, ...rest] = scope.split(":");
      const pattern = rest.join(":");
      return { kind: kind as Kind, matches: expressionOf(pattern), isAll: pattern === "*" };
    });
    const isOnAll = (kind: Kind) => this.#rules.some((rule) => covers(rule.kind, kind) && rule.isAll);
    this.#allowedOnAll = new Set(KINDS.filter(isOnAll));
  }

  allows(kind: Kind, queue: string): boolean {
    return this.#rules.some((rule) => covers(rule.kind, kind) && rule.matches.test(queue));
  }

  /** On every queue there is or will be. */
  allowsAll(kind: Kind): boolean {
    return this.#allowedOnAll.has(kind);
  }

  /** Refuses where one of the queues is not covered by one of the kinds. */
  need(kinds: readonly Kind[], queues: readonly unknown[]): void {
    for (const queue of queues) {
      if (kinds.some((kind) => this.allows(kind, String(queue)))) continue;
      throw new DibsError(
        "FORBIDDEN",
        `The token ${show(this.name)} does not allow this: it needs the scope ${kinds.map((kind) => `${kind}:${String(queue)}`).join(" or ")}. ` +
          `Ask whoever runs the server for one that has it.`,
      );
    }
  }
}

export const EVERYTHING: readonly Scope[] = ["admin:*"];

function covers(has: Kind, needed: Kind): boolean {
  return has === needed || has === "admin";
}

function expressionOf(pattern: string): RegExp {
  const parts = pattern.split("*").map((part) => part.replaceAll(/[.]/g, "\\."));
  return new RegExp(`^${parts.join(".*")}$`, "s");
}
