import {
  type Counts,
  countRecord,
  noCounts,
  type StoreHeader,
  type StoreRecord,
} from "../core/record/record.ts";
import { Pages } from "./pages.ts";
import {
  checkHold,
  checkImport,
  type Hold,
  isClosed,
  NO_TRANSFER,
  type TransferState,
  type TransferStore,
  wroteUpTo,
} from "./transfer.ts";

/**
 * The steps of export, import and move, which are the same on every engine. The engines' `transfer/transfer.ts` extend it
 * with their statements. Each public method is one transaction.
 */
export abstract class StoreTransfer implements TransferStore {
  abstract readonly label: string;

  /** `exclusive`: while no other transaction uses the store. */
  protected abstract commit<T>(work: () => Promise<T> | T, how?: { exclusive: boolean }): Promise<T>;
  protected abstract beginRead(): Promise<void> | void;
  protected abstract endRead(): Promise<void> | void;
  /** An error of the store, for the caller. */
  protected abstract failure(error: unknown): unknown;

  /** All records except the last one, of the snapshot of `beginRead`. `paused`: the queues that a move has paused. */
  protected abstract records(
    id: string | null,
    paused: readonly string[],
  ): AsyncIterable<StoreRecord> | Iterable<StoreRecord>;
  /** The state as JSON text; null: none. */
  protected abstract stored(): Promise<string | null> | string | null;
  protected abstract store(state: string | null, closed: boolean): Promise<void> | void;
  protected abstract isEmpty(): Promise<boolean> | boolean;
  /** The store gets the identity, clock and counters of the export. */
  protected abstract adopt(header: StoreHeader): Promise<void> | void;
  protected abstract import(records: readonly StoreRecord[]): Promise<void> | void;
  protected abstract countRows(): Promise<Counts> | Counts;
  /** Promotes the first tasks of groups whose head ended before the export. */
  protected abstract finishGroups(): Promise<void> | void;
  protected abstract countClaims(): Promise<number> | number;
  /** Returns the names of the queues that were not paused before. */
  protected abstract pauseAll(): Promise<string[]> | string[];
  protected abstract resume(queues: readonly string[]): Promise<void> | void;
  abstract close(): Promise<void>;

  async *read(): AsyncGenerator<StoreRecord[]> {
    await this.beginRead();
    try {
      const state = await this.state();
      const [id, paused] = "paused" in state ? [state.id, state.paused] : [null, []];
      const counts = noCounts();
      const pages = new Pages();
      for await (const record of this.records(id, paused)) {
        countRecord(counts, record);
        const page = pages.add(record);
        if (page) yield page;
      }
      yield [...pages.rest(), { type: "end", counts }];
    } catch (error) {
      throw this.failure(error);
    } finally {
      await this.endRead();
    }
  }

  async state(): Promise<TransferState> {
    const text = await this.stored();
    return text === null ? NO_TRANSFER : (JSON.parse(text) as TransferState);
  }

  async #setState(state: TransferState): Promise<void> {
    await this.store(state.kind === "none" ? null : JSON.stringify(state), isClosed(state));
  }

  beginImport(header: StoreHeader): Promise<number> {
    const begin = async (): Promise<number> => {
      const isEmpty = await this.isEmpty();
      const done = checkImport(await this.state(), header, { label: this.label, isEmpty });
      if (done > 0) return done;
      await this.adopt(header);
      await this.#setState({ kind: "importing", id: header.export, done: 0 });
      return 0;
    };
    return this.commit(begin, { exclusive: true });
  }

  write(records: readonly StoreRecord[], done: number): Promise<void> {
    return this.commit(async () => {
      await this.#setState(wroteUpTo(await this.state(), done - records.length, done, this.label));
      await this.import(records);
    });
  }

  count(): Promise<Counts> {
    return this.commit(() => this.countRows());
  }

  finishImport(): Promise<void> {
    const finish = async (): Promise<void> => {
      const state = await this.state();
      if (state.kind !== "importing") return;
      await this.finishGroups();
      await this.#setState({ kind: "imported", id: state.id });
    };
    return this.commit(finish, { exclusive: true });
  }

  hold({ id, to }: Hold, { drain }: { drain: boolean }): Promise<{ claimed: number }> {
    const hold = async (): Promise<{ claimed: number }> => {
      const before = await this.state();
      checkHold(before, { id, to }, this.label);
      if (before.kind === "held") return { claimed: 0 };
      const draining = before.kind === "draining" ? before : undefined;
      const known = { id: draining?.id ?? id, to, paused: draining?.paused ?? [] };
      const claimed = await this.countClaims();
      if (claimed === 0) await this.#setState({ kind: "held", ...known });
      else if (drain)
        await this.#setState({
          ...known,
          kind: "draining",
          paused: [...known.paused, ...(await this.pauseAll())],
        });
      return { claimed };
    };
    return this.commit(hold, { exclusive: true });
  }

  release(): Promise<void> {
    const release = async (): Promise<void> => {
      const state = await this.state();
      if (!("paused" in state)) return;
      await this.resume(state.paused);
      await this.#setState(NO_TRANSFER);
    };
    return this.commit(release, { exclusive: true });
  }

  markMoved(): Promise<void> {
    return this.commit(async () => {
      const state = await this.state();
      if (state.kind === "held") await this.#setState({ kind: "moved", id: state.id, to: state.to });
    });
  }
}
