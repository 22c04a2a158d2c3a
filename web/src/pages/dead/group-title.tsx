/** What a group of dead letters has in common, as the inbox and the chosen group show it. */

import { workerName } from "../../format/worker.ts";

/** @param by "fingerprint", "worker" or "header:NAME" */
export function titleOf(pattern: string, by: string): string {
  if (by === "worker") return pattern === "" ? "no worker" : workerName(pattern);
  return pattern === "" && by !== "fingerprint" ? "without it" : pattern;
}

/** The parts of an error that differ between its tasks, such as `<address>`, are quiet. */
export function GroupTitle({ pattern, by }: { pattern: string; by: string }) {
  const title = titleOf(pattern, by);
  if (by !== "fingerprint") return <>{title}</>;
  return (
    <>
      {title.split(/(<[a-z]+>)/).map((part, index) =>
        index % 2 === 0 ? (
          part
        ) : (
          <span key={index} class="varies">
            {part.slice(1, -1)}
          </span>
        ),
      )}
    </>
  );
}
