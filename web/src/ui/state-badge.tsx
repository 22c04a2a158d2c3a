import type { FoundTask, TaskState } from "../api/contract.ts";
import { isSleep } from "../format/sleep.ts";

const TONES: Partial<Record<string, string>> = {
  claimed: "accent",
  running: "accent",
  parked: "amber",
  verifying: "amber",
  dead: "red",
};

/** A parked task that waits for nothing but the time is asleep. */
export function TaskBadge({ task: { state, waitsFor } }: { task: Pick<FoundTask, "state" | "waitsFor"> }) {
  if (state === "parked" && isSleep(waitsFor)) return <span class="badge">sleeping</span>;
  return <StateBadge state={state} />;
}

/** "claimed" is the store's word; people say "running". */
export function StateBadge({ state }: { state: TaskState | "running" }) {
  return <span class={`badge ${TONES[state] ?? ""}`}>{state === "claimed" ? "running" : state}</span>;
}
