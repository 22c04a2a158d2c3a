import { defineQueue } from "../../src/index.ts";

export const KINDS = ["letter", "image", "chat", "riddle"] as const;
export type Kind = (typeof KINDS)[number];

export interface Job {
  kind: Kind;
  number: number;
}

export interface Done {
  by: string;
  pid: number;
}

/** Shared by the producer, the workers and the screen. The lease is short, so that tasks return soon after a crash. */
export const jobs = defineQueue<Job, Done>("jobs", {
  lease: "2s",
  maxAttempts: 3,
  backoff: { type: "fixed", delay: "500ms" },
  elsewhere: "2s",
});

/** From the producer to the screen, once the tasks are on disk. */
export interface Added {
  ids: string[];
  jobs: Job[];
}
