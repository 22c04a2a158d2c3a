/** Alerts: which rules there are, which are raised now, and what changed. */

import { call } from "../../api/call.ts";
import type { AlertStates } from "../../api/contract.ts";
import { showDuration } from "../../format/duration.ts";
import { showCount, showShare } from "../../format/number.ts";
import { linkTo } from "../../router/route.ts";
import { useResource } from "../../store/resource.ts";
import { Empty } from "../../ui/empty.tsx";
import { Loaded } from "../../ui/loaded.tsx";
import { Fact, PageHead } from "../../ui/page-head.tsx";
import { type Decision, Decisions } from "../pools/decisions.tsx";

type Rule = AlertStates["rules"][number];

const WORDS: Record<Rule["when"], (above: number) => string> = {
  depth: (above) => `more than ${showCount(above)} tasks wait`,
  oldestAge: (above) => `the oldest task has waited longer than ${showDuration(above)}`,
  noWorkers: () => "tasks wait and no worker is there",
  failureRate: (above) => `more than ${showShare(above)} of the attempts fail`,
  deadLetters: (above) => `more than ${showCount(above)} tasks become dead letters within ten minutes`,
  newFailure: () => "a kind of failure occurs that was not there before",
  idleWorkers: (above) => `${showCount(above)} more workers than needed are idle`,
};

export function AlertsPage() {
  const resource = useResource(load, [], 5_000);
  const raised = resource.value?.states.filter((state) => state.raised) ?? [];
  return (
    <>
      <PageHead
        title="Alerts"
        facts={
          resource.value && (
            <Fact value={String(raised.length)} of="raised" tone={raised.length > 0 ? "amber" : undefined} />
          )
        }
      />
      <Loaded from={resource}>
        {({ running, rules, states, decisions }) =>
          rules.length === 0 && decisions.length === 0 ? (
            <Empty title="No alert is defined." commands={["dibs pool --config pools.json"]}>
              Rules say when somebody should look: too deep, too old, no workers, failing, dead letters. They
              are part of the configuration of pools.
            </Empty>
          ) : (
            <div class="stack">
              {!running && <p class="amber">No process evaluates the rules at the moment.</p>}
              {raised.length > 0 && <Raised states={states.filter((state) => state.raised)} rules={rules} />}
              <section class="card">
                <h2>Rules</h2>
                <ul class="rules">
                  {rules.map(({ queue, when, above, for: span }) => (
                    <li key={`${queue} ${when}`}>
                      <b class="clip">{queue === "*" ? "every queue" : queue}</b>
                      <span>
                        {WORDS[when](above)}
                        {span > 0 && ` for ${showDuration(span)}`}
                      </span>
                    </li>
                  ))}
                </ul>
              </section>
              <section class="card">
                <h2>What changed</h2>
                <Decisions decisions={decisions} />
              </section>
            </div>
          )
        }
      </Loaded>
    </>
  );
}

function Raised({ states, rules }: { states: AlertStates["states"]; rules: Rule[] }) {
  return (
    <section class="card">
      <h2 class="amber">Needs a look</h2>
      <ul class="rules">
        {states.map(({ queue, when, since }) => {
          const rule = rules.find(
            (each) => each.when === when && (each.queue === queue || each.queue === "*"),
          );
          return (
            <li key={`${queue} ${when}`}>
              <a class="clip" href={linkTo(["queues", queue])}>
                {queue}
              </a>
              <span>
                {WORDS[when](rule?.above ?? 0)}{" "}
                {since !== null && <span class="quiet">(about to clear)</span>}
              </span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

async function load(signal: AbortSignal): Promise<AlertStates & { decisions: Decision[] }> {
  const [states, { decisions }] = await Promise.all([
    call<AlertStates>("v1/alerts/states", { signal }),
    call<{ decisions: Decision[] }>("v1/alerts/alerts/decisions", { query: { limit: 50 }, signal }),
  ]);
  return { ...states, decisions };
}
