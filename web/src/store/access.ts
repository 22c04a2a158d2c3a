/** What the reader may do. Actions that are not allowed are not shown; the server checks them all the same. */

import { computed } from "@preact/signals";
import { me } from "../api/live.ts";

export type Kind = "add" | "work" | "read" | "admin";

const rules = computed(() =>
  (me.value?.scopes ?? []).map((scope) => {
    const [kind = "", ...rest] = scope.split(":");
    const pattern = rest
      .join(":")
      .replaceAll(/[.+?^${}()|[\]\\]/g, "\\$&")
      .replaceAll("*", ".*");
    return { kind, pattern: new RegExp(`^${pattern}$`, "s") };
  }),
);

/** `admin` includes the other kinds. Without a queue: on all of them. */
export function may(kind: Kind, queue = "*"): boolean {
  return rules.value.some(
    (rule) => (rule.kind === kind || rule.kind === "admin") && rule.pattern.test(queue),
  );
}

/** Whether any action is possible at all. */
export const isReadOnly = computed(() => !rules.value.some(({ kind }) => kind !== "read"));
