import type { QueueFrame } from "../api/contract.ts";
import { countOf } from "../format/number.ts";

/** The picture in words, for people who do not see it: what each worker runs, and what waits. */
export function Spoken({ frame }: { frame: QueueFrame }) {
  const { workers, line } = frame;
  return (
    <div class="unseen">
      <ul aria-label="Workers of this queue">
        {workers.map(({ id, name, state, running }) => (
          <li key={id}>
            {name} is {state}
            {running.length > 0 &&
              `, runs ${running.map(({ task, attempt }) => `${task}, attempt ${attempt}`).join("; ")}`}
          </li>
        ))}
      </ul>
      <p>
        {line.length === 0
          ? "Nothing is waiting."
          : `${countOf(line.length, "task")} at the head of the line.`}
      </p>
    </div>
  );
}
