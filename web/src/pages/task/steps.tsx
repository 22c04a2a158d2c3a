import { isSleep, sleepName } from "../../format/sleep.ts";
import { preview } from "../tasks/search-text.ts";

export interface Step {
  kind: "step" | "signal" | "timeout" | "child";
  name: string;
  value: unknown;
}

const WORDS: Record<Step["kind"], string> = {
  step: "step",
  signal: "signal that arrived",
  timeout: "wait that ran out",
  child: "child",
};

/** What earlier attempts have stored: a retry gets these values instead of doing the work again. */
export function Steps({ steps }: { steps: Step[] }) {
  return (
    <section class="card">
      <h2>Steps and signals</h2>
      <dl class="facts-list">
        {steps.map(({ kind, name, value }) => (
          <StepRow key={`${kind} ${name}`} title={titleOf(kind, name)} value={preview(value)} />
        ))}
      </dl>
    </section>
  );
}

function titleOf(kind: Step["kind"], name: string): string {
  return isSleep(name) ? `${sleepName(name)}, over` : `${name}, a ${WORDS[kind]}`;
}

function StepRow({ title, value }: { title: string; value: string }) {
  return (
    <>
      <dt>{title}</dt>
      <dd class="code">{value}</dd>
    </>
  );
}
