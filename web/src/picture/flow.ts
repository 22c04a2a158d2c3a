/** How fast cells move. Above 60 moves a second they are drawn as a flow, because nobody could follow each of them. */

const STREAM_FROM = 60;
/** Lower than the start, so that a rate near the border does not switch to and fro. */
const STREAM_UNTIL = 40;
const WINDOW_MS = 1_000;

export interface Flow {
  /** Counts of the last second, as [moment, moves]. */
  recent: [number, number][];
  perSecond: number;
  streaming: boolean;
}

export function newFlow(): Flow {
  return { recent: [], perSecond: 0, streaming: false };
}

/** @param moves how many there were since the last call; @param now on the page's clock */
export function countMoves(flow: Flow, moves: number, now: number): void {
  if (moves > 0) flow.recent.push([now, moves]);
  while (flow.recent[0] && now - flow.recent[0][0] > WINDOW_MS) flow.recent.shift();
  flow.perSecond = flow.recent.reduce((sum, [, count]) => sum + count, 0) / (WINDOW_MS / 1_000);
  flow.streaming = flow.perSecond > (flow.streaming ? STREAM_UNTIL : STREAM_FROM);
}

/** Distance in pixels between two cells of a worker's flow: its density is the worker's rate. */
export function spacingOf(rate: number): number {
  return rate <= 0 ? Infinity : Math.max(9, SPEED / rate);
}

/** Pixels per second at which a flow moves. */
export const SPEED = 280;
