/** A place in a queue's line. */
export interface Floor {
  rank: number;
  pos: number;
}

/** Below every place. */
export const GROUND: Floor = { rank: -32_768, pos: 0 };

/** An add that has a number by now has committed by then, or is found by the next look from the ground. */
const LAG_MS = 5_000;
const SAMPLE_EVERY_MS = 500;
/** How often a claim looks from the ground: while there is enough above the floor, and while there is not. */
const LOOK_EVERY_MS = 5_000;
const LOOK_WHEN_SHORT_MS = 1_000;

interface Line {
  floor: Floor;
  lookedAt: number;
  isShort: boolean;
}

/**
 * Where claims begin to look. While somebody's transaction stays open for long, PostgreSQL keeps the index entries of
 * all that was claimed since, and a claim that begins at the front walks over them: more of them each time. So it
 * begins where the last one of this process found its first task.
 *
 * It is a hint that mends itself. What comes back below the floor through this process lowers it, what others put there
 * is told (herald.ts), and now and then a claim looks from the ground.
 */
export class Floors {
  readonly #now: () => number;
  readonly #lines = new Map<string, Line>();
  /** The last number given out, as it was at some moments. */
  #samples: { at: number; seq: number }[] = [];

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  get wantsSample(): boolean {
    return this.#now() - (this.#samples.at(-1)?.at ?? Number.NEGATIVE_INFINITY) >= SAMPLE_EVERY_MS;
  }

  sample(seq: number): void {
    this.#samples.push({ at: this.#now(), seq });
  }

  /** Where the next claim on a queue begins. */
  of(queue: string): Floor {
    const line = this.#lines.get(queue);
    if (!line) return GROUND;
    const every = line.isShort ? LOOK_WHEN_SHORT_MS : LOOK_EVERY_MS;
    return this.#now() - line.lookedAt >= every ? GROUND : line.floor;
  }

  /** A claim that began at `from` found this first; `isShort`: fewer than it asked for. */
  found(queue: string, from: Floor, first: Floor | undefined, isShort: boolean): void {
    const lookedAt = from === GROUND ? this.#now() : (this.#lines.get(queue)?.lookedAt ?? 0);
    // Numbers that were given out lately may belong to adds that are not committed, below the first that is.
    const floor = first && first.pos <= this.#settled() ? first : from;
    this.#lines.set(queue, { floor, lookedAt, isShort });
  }

  /** Something has come to stand there. */
  lower(queue: string, place: Floor): void {
    const line = this.#lines.get(queue);
    if (!line) return;
    const { rank, pos } = line.floor;
    if (place.rank < rank || (place.rank === rank && place.pos < pos)) line.floor = place;
  }

  /** Others have put something somewhere. */
  forget(queue: string): void {
    this.#lines.delete(queue);
  }

  /** Adds with numbers up to this one are over. */
  #settled(): number {
    const until = this.#now() - LAG_MS;
    const next = this.#samples.findIndex(({ at }) => at > until);
    const past = next < 0 ? this.#samples.length : next;
    if (past > 1) this.#samples = this.#samples.slice(past - 1);
    const first = this.#samples[0];
    return first && first.at <= until ? first.seq : 0;
  }
}
