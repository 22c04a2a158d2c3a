/**
 * The bindings of a topic exchange as a tree of words, for route.ts. core/topic/topic-tree.ts does the same for topics of dibs,
 * whose words have a small alphabet; a routing key may have any characters, and empty words.
 */
interface Node<Item> {
  children: Map<string, Node<Item>>;
  items: Set<Item>;
}

export class TopicTree<Item> {
  readonly #root: Node<Item> = newNode();

  add(pattern: string, item: Item): void {
    let node = this.#root;
    for (const word of wordsOf(pattern)) {
      let child = node.children.get(word);
      if (!child) node.children.set(word, (child = newNode()));
      node = child;
    }
    node.items.add(item);
  }

  remove(pattern: string, item: Item): void {
    const path: { node: Node<Item>; word: string }[] = [];
    let node: Node<Item> | undefined = this.#root;
    for (const word of wordsOf(pattern)) {
      path.push({ node, word });
      node = node.children.get(word);
      if (!node) return;
    }
    node.items.delete(item);
    for (const { node: parent, word } of path.toReversed()) {
      const child: Node<Item> = parent.children.get(word)!;
      if (child.items.size > 0 || child.children.size > 0) return;
      parent.children.delete(word);
    }
  }

  /** Goes through the words once, with the set of nodes that are reached: # stays at its node for any number of words. */
  matching(key: string): Set<Item> {
    let reached = new Set<Node<Item>>();
    enter(reached, this.#root);
    for (const word of wordsOf(key)) {
      const next = new Set<Node<Item>>();
      for (const node of reached) {
        if (isMany(node)) next.add(node);
        for (const child of [node.children.get(word), node.children.get("*")]) if (child) enter(next, child);
      }
      reached = next;
    }
    const found = new Set<Item>();
    for (const node of reached) for (const item of node.items) found.add(item);
    return found;
  }
}

const MANY = new WeakSet<object>();

function isMany(node: object): boolean {
  return MANY.has(node);
}

/** A node, and the nodes that its # reaches without a word. */
function enter<Item>(reached: Set<Node<Item>>, start: Node<Item>): void {
  for (let node: Node<Item> | undefined = start; node;) {
    reached.add(node);
    const many: Node<Item> | undefined = node.children.get("#");
    if (many) MANY.add(many);
    node = many;
  }
}

function newNode<Item>(): Node<Item> {
  return { children: new Map(), items: new Set() };
}

function wordsOf(key: string): string[] {
  return key === "" ? [] : key.split(".");
}
