import { URGENT } from "../../../core/task.ts";

/** The rank of a row of `task`: see rankOf in core/task.ts. */
export const RANK = `(CASE WHEN task.urgent THEN -${URGENT} ELSE 0 END - task.priority)`;
