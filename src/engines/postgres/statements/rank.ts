import { URGENT } from "../../../core/task/task.ts";

/** The rank of a row of `task`: see rankOf in core/task/task.ts. */
export const RANK = `(CASE WHEN task.urgent THEN -${URGENT} ELSE 0 END - task.priority)`;
