import { lostError } from "../core/errors/attempt-errors.ts";
import type { DibsEvent } from "../core/event/events.ts";
import { MOST_MOVES, type Move, type MoveKind, type MovesFrame } from "./live-frames.ts";

/** Workers in a frame with counts. */
const MOST_WORKERS = 100;

const NONE: Record<MoveKind, number> = {
  ...{ added: 0, claimed: 0, done: 0, failed: 0, lost: 0, released: 0, dead: 0, redriven: 0 },
  ...{ parked: 0, verifying: 0, cancelled: 0, expired: 0 },
};

/** Collects what happened to the tasks of a queue until the next frame. picture.ts calls it. */
export class Moves {
  #moves: Move[] = [];
  #counts = { ...NONE };
  #total = 0;
  #byWorker = new Map<string, [claimed: number, done: number, failed: number]>();

  add(move: Move): void {
    const [kind, , worker] = move;
    this.#counts[kind]++;
    if (this.#total++ < MOST_MOVES) this.#moves.push(move);
    const column = worker === null ? undefined : COLUMN[kind];
    if (column === undefined) return;
    const counts = this.#byWorker.get(worker!) ?? [0, 0, 0];
    counts[column]++;
    this.#byWorker.set(worker!, counts);
  }

  /** The frame, or undefined if nothing moved. Starts again. */
  take(): MovesFrame | undefined {
    if (this.#total === 0) return undefined;
    const isListed = this.#total <= MOST_MOVES;
    const busiest = [...this.#byWorker]
      .sort(([, a], [, b]) => b[0] + b[1] + b[2] - (a[0] + a[1] + a[2]))
      .slice(0, MOST_WORKERS);
    const frame: MovesFrame = {
      type: "moves",
      moves: isListed ? this.#moves : [],
      counts: this.#counts,
      ...(!isListed && { workers: busiest.map(([worker, counts]) => [worker, ...counts] as const) as never }),
    };
    this.#moves = [];
    this.#counts = { ...NONE };
    this.#total = 0;
    this.#byWorker = new Map();
    return frame;
  }
}

/** Which of a worker's counts a move belongs to. */
const COLUMN: Partial<Record<MoveKind, 0 | 1 | 2>> = { claimed: 0, done: 1, failed: 2, lost: 2, dead: 2 };

/** A lease that ended is an ordinary failure for the store, with this error. */
const LOST = `${lostError("").name}: `;

/** Undefined: an event that moves no task. */
export function moveOf(event: DibsEvent): Move | undefined {
  if (!("taskId" in event)) return undefined;
  const { type, taskId, worker = null, attempt = null, at, detail = "" } = event;
  const kind = type.slice("task.".length);
  if (kind === "failed" && detail.startsWith(LOST)) return ["lost", taskId, worker, attempt, at];
  return kind in NONE ? [kind as MoveKind, taskId, worker, attempt, at] : undefined;
}
