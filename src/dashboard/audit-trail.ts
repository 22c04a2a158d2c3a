import type { AuditEntry, AuditPage } from "./contract.ts";

/** Entries that can be read: older ones are in the log. */
const MOST = 1_000;

/** The last entries of the audit log, for administrators of all queues. */
export class AuditTrail {
  readonly #entries: { number: number; entry: AuditEntry }[] = [];
  #count = 0;

  add(entry: AuditEntry): void {
    this.#entries.push({ number: ++this.#count, entry });
    if (this.#entries.length > MOST) this.#entries.shift();
  }

  /** The newest first. @param before the `next` of the previous page */
  read(limit: number, before = Infinity): AuditPage {
    const older = this.#entries.filter(({ number }) => number < before);
    const page = older.slice(-limit).toReversed();
    const isMore = older.length > page.length;
    return {
      entries: page.map(({ entry }) => entry),
      next: isMore ? String(page.at(-1)!.number) : null,
    };
  }
}
