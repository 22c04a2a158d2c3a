import { sizeOfError } from "../core/answer/answer-size.ts";
import type { StoreRecord, TaskEntry } from "../core/record/record.ts";
import { PAGE } from "./transfer.ts";

/** Collects the records of an export into pages of bounded size. The engines' transfer code uses it. */
export class Pages {
  #page: StoreRecord[] = [];
  #bytes = 0;

  /** Adds the record, and returns the page if it is full now. */
  add(record: StoreRecord): StoreRecord[] | undefined {
    this.#page.push(record);
    this.#bytes += sizeOf(record);
    if (this.#bytes < PAGE.bytes && this.#page.length < PAGE.records) return undefined;
    return this.rest();
  }

  /** The records since the last full page. */
  rest(): StoreRecord[] {
    const page = this.#page;
    this.#page = [];
    this.#bytes = 0;
    return page;
  }
}

/** Approximate size: counts the fields that may be large; the rest is small. */
function sizeOf(record: StoreRecord): number {
  if (record.type === "document") return record.value.length;
  if (record.type === "run") return 500 + (record.result?.length ?? 0);
  if (record.type === "part") return 500 + (record.awaitsJoin?.result?.length ?? 0);
  if (record.type === "child") return 500 + (record.result?.length ?? 0) + sizeOfError(record.error ?? null);
  return record.type === "task" ? sizeOfTask(record) : 500;
}

function sizeOfTask({ data, result, verifying, steps = [], attempts = [] }: TaskEntry): number {
  return (
    500 +
    data.length +
    (result?.length ?? 0) +
    (verifying?.result?.length ?? 0) +
    (verifying?.adds?.length ?? 0) +
    steps.reduce((sum, { name, value }) => sum + name.length + (value?.length ?? 0), 0) +
    attempts.reduce((sum, { error }) => sum + 200 + sizeOfError(error), 0)
  );
}
