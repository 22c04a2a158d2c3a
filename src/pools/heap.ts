/** What happens next in a simulation: the earliest entry first, and entries of one moment in the order of their arrival. */
export class TimeHeap<Item> {
  readonly #entries: { at: number; order: number; item: Item }[] = [];
  #order = 0;

  push(at: number, item: Item): void {
    const entries = this.#entries;
    const entry = { at, order: this.#order++, item };
    let hole = entries.length;
    entries.push(entry);
    while (hole > 0) {
      const parent = (hole - 1) >> 1;
      if (!isBefore(entry, entries[parent]!)) break;
      entries[hole] = entries[parent]!;
      hole = parent;
    }
    entries[hole] = entry;
  }

  pop(): { at: number; item: Item } | undefined {
    const entries = this.#entries;
    const first = entries[0];
    const last = entries.pop();
    if (first === undefined || last === undefined || entries.length === 0) return first;
    let hole = 0;
    for (;;) {
      let child = 2 * hole + 1;
      if (child >= entries.length) break;
      if (child + 1 < entries.length && isBefore(entries[child + 1]!, entries[child]!)) child++;
      if (!isBefore(entries[child]!, last)) break;
      entries[hole] = entries[child]!;
      hole = child;
    }
    entries[hole] = last;
    return first;
  }
}

function isBefore(a: { at: number; order: number }, b: { at: number; order: number }): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}
