import { ANY_WORDS, ONE_WORD } from "./topic.ts";

/**
 * Patterns by their words, so that a topic is compared with those that can match it and not with all there are: with
 * 10,000 subscriptions a publish walks over as many words as its topic has, and what hangs on them.
 */
export class TopicTree<Value> {
  readonly #root: Node<Value> = newNode();

  add(pattern: string, value: Value): void {
    let node = this.#root;
    for (const word of pattern.split(".")) {
      let next = node.words.get(word);
      if (!next) node.words.set(word, (next = newNode(word === ANY_WORDS)));
      node = next;
    }
    node.values.push(value);
  }

  /** The values of all patterns that match, in no particular order; each once. */
  match(topic: string): Value[] {
    const words = topic.split(".");
    const found: Value[] = [];
    // A level for each word. What several ways lead to is there once, however many # the patterns have.
    let level = withAnyWords([this.#root]);
    for (const word of words) {
      const next = new Set<Node<Value>>();
      for (const node of level) {
        const exact = node.words.get(word);
        if (exact) next.add(exact);
        const one = node.words.get(ONE_WORD);
        if (one) next.add(one);
        if (node.isAny) next.add(node);
      }
      if (next.size === 0) return found;
      level = withAnyWords(next);
    }
    for (const node of level) for (const value of node.values) found.push(value);
    return found;
  }
}

/** A topic may have a customer's number in it: they are not all remembered. */
const MOST_REMEMBERED = 1_000;

/** Subscriptions by their patterns. Most publish to a few topics again and again: what those reach is remembered. */
export class SubscriptionIndex<Row extends { id: number; pattern: string }> {
  readonly #tree = new TopicTree<Row>();
  readonly #found = new Map<string, readonly Row[]>();

  add(row: Row): void {
    this.#found.clear();
    this.#tree.add(row.pattern, row);
  }

  /** In the order they were made. */
  reachedBy(topic: string): readonly Row[] {
    let found = this.#found.get(topic);
    if (!found) {
      found = this.#tree.match(topic).sort((a, b) => a.id - b.id);
      if (this.#found.size >= MOST_REMEMBERED) this.#found.clear();
      this.#found.set(topic, found);
    }
    return found;
  }
}

interface Node<Value> {
  words: Map<string, Node<Value>>;
  values: Value[];
  /** Reached by #: it stays where it is, whatever word follows. */
  isAny: boolean;
}

function newNode<Value>(isAny = false): Node<Value> {
  return { words: new Map(), values: [], isAny };
}

/** The nodes, and those that are reached from them by a # that stands for nothing. */
function withAnyWords<Value>(nodes: Iterable<Node<Value>>): Set<Node<Value>> {
  const all = new Set(nodes);
  for (const node of all) {
    const any = node.words.get(ANY_WORDS);
    // A set that grows while it is walked over is walked to its new end.
    if (any) all.add(any);
  }
  return all;
}
