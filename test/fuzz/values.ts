import type { Random } from "../simulation/random.ts";

const SCALARS: readonly unknown[] = [
  ...[null, true, false, 0, -1, 1, 0.5, 1e308, 2 ** 53, -(2 ** 53), "", " ", "30s", "soon", "-1s"],
  ...["__proto__", "constructor", "toString", "\0", "\u2028", "\ud800", "é".repeat(50), "x".repeat(2_000)],
  ...["work", "topic/a.b/g", "order.*", "ready", "01980000-0000-7000-8000-000000000000"],
];

const KEYS: readonly string[] = [
  ...["queue", "queues", "data", "id", "fence", "max", "wait", "lease", "worker", "kind", "result", "adds"],
  ...["headers", "priority", "delay", "groupKey", "idempotencyKey", "ttl", "maxAttempts", "topic", "policy"],
  ...["$", "__proto__", "constructor", "length", "then", "toJSON", "session", "share", "state", "limit"],
];

/** Properties that every object has. JSON can carry all of them as own properties. */
const LIES: readonly string[] = [
  ...[
    "toString",
    "valueOf",
    "toJSON",
    "constructor",
    "then",
    "length",
    "__proto__",
    "name",
    "message",
    "code",
  ],
];

/** Objects that code breaks on which asks a value for its text, its class, its JSON, its length or its callbacks. */
const KNOWN_LIARS: readonly string[] = [
  '{"toString":1}',
  '{"toString":null,"valueOf":null}',
  '{"constructor":{"name":{"toString":1}}}',
  '{"constructor":null}',
  '{"toJSON":1}',
  '{"length":{"toString":1}}',
  '{"length":1e9}',
  '{"then":{"call":1}}',
  '{"__proto__":{"toString":1}}',
];

/**
 * An object that overrides them. It is parsed from text, as clients send it: then `__proto__` is an own property, not
 * the prototype.
 */
export function anyLiar(random: Random, depth = 0): unknown {
  if (random.chance(0.5)) return JSON.parse(random.pick(KNOWN_LIARS));
  const lies = Array.from({ length: random.between(1, 3) }, () => {
    const lie = random.weighted({ number: 3, none: 1, liar: depth > 4 ? 0 : 3, value: 1 });
    const value = {
      number: () => random.pick([1, -1, 1e9]),
      none: () => null,
      liar: () => anyLiar(random, depth + 1),
      value: () => anyValue(random, depth + 1),
    }[lie]();
    return `${JSON.stringify(random.pick(LIES))}:${JSON.stringify(value)}`;
  });
  return JSON.parse(`{${lies.join(",")}}`);
}

/** Any JSON, of the kinds that cause trouble. */
export function anyValue(random: Random, depth = 0): unknown {
  const kind = random.weighted({
    scalar: 5,
    number: 1,
    array: depth > 4 ? 0 : 2,
    object: depth > 4 ? 0 : 3,
    liar: depth > 4 ? 0 : 2,
    deep: 0.05,
  });
  switch (kind) {
    case "scalar":
      return random.pick(SCALARS);
    case "number":
      return (random.next() - 0.5) * 10 ** random.between(0, 18);
    case "array":
      return Array.from({ length: random.between(0, 5) }, () => anyValue(random, depth + 1));
    case "liar":
      return anyLiar(random, depth);
    case "deep": {
      let value: unknown = 1;
      for (let level = random.between(10, 1_500); level > 0; level--) value = [value];
      return value;
    }
    default:
      return Object.fromEntries(
        Array.from({ length: random.between(0, 6) }, () => [random.pick(KEYS), anyValue(random, depth + 1)]),
      );
  }
}

/** A valid value with some parts replaced. */
export function bend(random: Random, value: unknown): unknown {
  if (random.chance(0.08)) return anyValue(random, 2);
  if (Array.isArray(value)) return value.map((part) => bend(random, part));
  if (typeof value !== "object" || value === null) return value;
  const parts = Object.entries(value)
    .filter(() => !random.chance(0.05))
    .map(([key, part]) => [key, bend(random, part)]);
  if (random.chance(0.1)) parts.push([random.pick(KEYS), anyValue(random, 2)]);
  return Object.fromEntries(parts) as unknown;
}

/** A text with some characters changed, missing or repeated. */
export function scratch(random: Random, text: string): string {
  let scratched = text;
  for (let times = random.between(1, 4); times > 0; times--) {
    const at = random.between(0, scratched.length);
    const length = random.between(0, 8);
    const put = random.pick([
      "",
      '"',
      "{",
      "]",
      ",",
      "\\",
      "\0",
      "1e999",
      "null",
      scratched.slice(at, at + length),
      "ÿ",
    ]);
    scratched = scratched.slice(0, at) + put + scratched.slice(at + length);
  }
  return scratched;
}

export function anyBytes(random: Random, most: number): Buffer {
  return Buffer.from(Array.from({ length: random.between(0, most) }, () => random.between(0, 255)));
}
