import { ANY_WORDS, ONE_WORD } from "./topic.ts";

/**
 * A trie of patterns by their words, for the engines' publish: a topic is compared only with patterns that can match
 * it. With 10,000 subscriptions, a publish visits as many levels as its topic has words.
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

  /** The values of all patterns that match, each once, in no particular order. */
  match(topic: string): Value[] {
    const words = topic.split(".");
    const found: Value[] = [];
    // One level per word. A set, so that a node that several paths lead to is visited once, however many # the patterns
    // have.
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

/** Topics may contain customer numbers, so not all of them are cached. */
const MOST_REMEMBERED = 1_000;

/**
 * Subscriptions by their patterns. Most processes publish to a few topics again and again: the result for a topic is
 * cached.
 */
export class SubscriptionIndex<Row extends { id: number; pattern: string }> {
  readonly #tree = new TopicTree<Row>();
  readonly #found = new Map<string, readonly Row[]>();

  add(row: Row): void {
    this.#found.clear();
    this.#tree.add(row.pattern, row);
  }

  /** In the order in which the subscriptions were created. */
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
  /** Reached by #: it matches any further word. */
  isAny: boolean;
}

function newNode<Value>(isAny = false): Node<Value> {
  return { words: new Map(), values: [], isAny };
}

/** The nodes, and those reached from them by a # that matches no words. */
function withAnyWords<Value>(nodes: Iterable<Node<Value>>): Set<Node<Value>> {
  const all = new Set(nodes);
  for (const node of all) {
    const any = node.words.get(ANY_WORDS);
    // Iterating a set also visits members that are added meanwhile.
    if (any) all.add(any);
  }
  return all;
}
