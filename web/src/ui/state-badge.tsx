import type { TaskState } from "../api/contract.ts";

const TONES: Partial<Record<string, string>> = {
  claimed: "accent",
  running: "accent",
  parked: "amber",
  verifying: "amber",
  dead: "red",
};

/** "claimed" is the store's word; people say "running". */
export function StateBadge({ state }: { state: TaskState | "running" }) {
  return <span class={`badge ${TONES[state] ?? ""}`}>{state === "claimed" ? "running" : state}</span>;
}
