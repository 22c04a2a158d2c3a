import { Ago } from "../../ui/ago.tsx";

export interface Decision {
  at: number;
  type: string;
  queue: string;
  reasons: string[];
  from?: number;
  to?: number;
}

const WORDS: Record<string, [text: string, tone: string]> = {
  "pool.started": ["started", ""],
  "pool.resized": ["resized", "accent"],
  "pool.crashing": ["workers crash", "red"],
  "pool.stopped": ["stopped", ""],
  "alert.raised": ["raised", "amber"],
  "alert.cleared": ["cleared", ""],
};

/** The first reason of an alert is the name of its rule, which the sentence after it says better. */
function sentences(reasons: string[]): string {
  return reasons.filter((reason) => reason.includes(" ")).join(" ");
}

/** Decisions that are shown before the user loads more. */
const FIRST = 6;

/** What a pool or the alerts decided, the newest first, with the reasons. */
export function Decisions({ decisions }: { decisions: Decision[] }) {
  if (decisions.length === 0) return <p class="quiet">Nothing has been decided yet.</p>;
  const older = decisions.slice(FIRST);
  return (
    <>
      <DecisionList decisions={decisions.slice(0, FIRST)} />
      {older.length > 0 && (
        <details class="older">
          <summary>{older.length} older</summary>
          <DecisionList decisions={older} />
        </details>
      )}
    </>
  );
}

function DecisionList({ decisions }: { decisions: Decision[] }) {
  return (
    <ol class="decisions">
      {decisions.map(({ at, type, queue, reasons, from, to }) => {
        const [text, tone] = WORDS[type] ?? [type, ""];
        return (
          <li key={`${at} ${type} ${queue} ${reasons.join()}`}>
            <span class="quiet">
              <Ago at={at} />
            </span>
            <span>
              <span class={`badge ${tone}`}>{to === undefined ? text : `${from ?? 0} → ${to}`}</span>
            </span>
            <span>
              {type.startsWith("alert") && <b>{queue} </b>}
              {sentences(reasons)}
            </span>
          </li>
        );
      })}
    </ol>
  );
}
