/** What a task has that most have not, in bits: whoever moves the others need not read their rows. */
export const TOLD = 1;
export const GROUPED = 2;
export const KEYED = 4;
export const STEPPED = 8;
const HAS_STEPS = `EXISTS (SELECT 1 FROM step WHERE step.task = task.seq)`;
export const SPECIAL = `(coalesce(expires_at, max_attempts, content_type, headers) IS NOT NULL) * ${TOLD}
  + (group_key IS NOT NULL) * ${GROUPED} + (idempotency_key IS NOT NULL) * ${KEYED} + ${HAS_STEPS} * ${STEPPED}`;
