import type { Task } from "../worker/task.ts";

/**
 * The environment of a program: what the supervisor's own has, without dibs's settings and secrets, and facts about the
 * task. programs.ts passes it on. The names are documented in docs/guides/programs.md.
 */

/** The supervisor's environment, computed once: it does not change. */
export function inherited(environment: NodeJS.ProcessEnv, isPostgres: boolean): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value === undefined || name.startsWith("DIBS_")) continue;
    // The password with which dibs opens its store.
    if (isPostgres && (name === "PGPASSWORD" || name === "PGPASSFILE")) continue;
    passed[name] = value;
  }
  return passed;
}

export function factsOf(task: Task, worker: string): Record<string, string> {
  const { run, topic, groupKey, feedback } = task;
  const facts: Record<string, string | null | undefined> = {
    DIBS_TASK_ID: task.id,
    DIBS_QUEUE: task.queue,
    DIBS_FENCE: String(task.fence),
    DIBS_ATTEMPT: String(task.attempt),
    DIBS_MAX_ATTEMPTS: String(task.maxAttempts),
    DIBS_WORKER: worker,
    DIBS_CONTENT_TYPE: task.contentType,
    DIBS_PRIORITY: String(task.priority),
    DIBS_CREATED_AT: task.createdAt.toISOString(),
    DIBS_HEADERS: JSON.stringify(task.headers),
    DIBS_GROUP_KEY: groupKey,
    DIBS_TOPIC: topic,
    DIBS_FEEDBACK: feedback,
    DIBS_RUN: run?.id,
    DIBS_STAGE: run?.stage,
  };
  const passed: Record<string, string> = {};
  for (const [name, value] of Object.entries(facts)) {
    // No program can be given a NUL: the fact ends there.
    if (value !== null && value !== undefined) passed[name] = value.split("\0", 1)[0]!;
  }
  return passed;
}
