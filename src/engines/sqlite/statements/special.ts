// What a task has beyond a payload, as bits: plain tasks are moved without reading their rows in `task`.

/** A time-to-live, attempts, headers, a cost, or a content type other than JSON. */
export const OPTIONS = 1;
export const GROUPED = 2;
export const KEYED = 4;
export const STEPPED = 8;
export const OF_RUN = 16;
export const CHILD = 32;
const HAS_STEPS = `EXISTS (SELECT 1 FROM step WHERE step.task = task.seq)`;
const HAS_RUN = `EXISTS (SELECT 1 FROM run_part WHERE run_part.task = task.seq)`;
const HAS_PARENT = `EXISTS (SELECT 1 FROM child WHERE child.task = task.seq)`;
export const SPECIAL = `(coalesce(expires_at, max_attempts, content_type, headers, cost) IS NOT NULL) * ${OPTIONS}
  + (group_key IS NOT NULL) * ${GROUPED} + (idempotency_key IS NOT NULL) * ${KEYED} + ${HAS_STEPS} * ${STEPPED} + ${HAS_RUN} * ${OF_RUN}
  + ${HAS_PARENT} * ${CHILD}`;
/** For a new task without group, key and time-to-live, and of no run. */
export const SPECIAL_OF_NEW = `(coalesce(max_attempts, content_type, headers) IS NOT NULL) * ${OPTIONS}`;
