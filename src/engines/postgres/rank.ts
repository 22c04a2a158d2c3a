import { FIRST_RANK, URGENT } from "../../core/task.ts";

/** Of a row of `task`: see rankOf in core/task.ts. */
export const RANK = `(CASE WHEN task.urgent THEN -${URGENT} ELSE 0 END - task.priority)`;

export function isUrgent(rank: number): boolean {
  return rank < FIRST_RANK;
}

export function priorityOf(rank: number): number {
  return 0 - rank - (isUrgent(rank) ? URGENT : 0);
}
