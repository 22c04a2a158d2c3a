import type { Port } from "../core/port.ts";
import type { AlertKind, ResolvedRule } from "../pools/alert-rules.ts";
import { ALERTS_NAME, type AlertsReport } from "../pools/alerts.ts";
import type { AlertStates } from "./contract.ts";

/** The rules of the alerts and their states, as the process that evaluates them has stored them. */
export async function readAlertStates(port: Port): Promise<AlertStates> {
  const [found] = (await port.supervised("alerts", { name: ALERTS_NAME })).items;
  if (!found) return { running: false, rules: [], states: [] };
  const { rules = [], states } = JSON.parse(found.report) as Partial<AlertsReport> &
    Pick<AlertsReport, "states">;
  return {
    running: found.heldFor > 0,
    rules,
    states: Object.entries(states).map(([key, { raised, since }]) => ({ ...subjectOf(key), raised, since })),
  };
}

/** The queues of the alerts that are raised, one for each alert. */
export function raisedAlerts({ states }: AlertStates): string[] {
  return states.filter(({ raised }) => raised).map(({ queue }) => queue);
}

/** Only what is about queues that the caller may read. A rule for every queue is shown to all. */
export function visibleStates(states: AlertStates, reads: (queue: string) => boolean): AlertStates {
  const isVisible = ({ queue }: Pick<ResolvedRule, "queue">): boolean => queue === "*" || reads(queue);
  return { ...states, rules: states.rules.filter(isVisible), states: states.states.filter(isVisible) };
}

/** A key is the queue, a space and the rule. */
function subjectOf(key: string): { queue: string; when: AlertKind } {
  const at = key.lastIndexOf(" ");
  return { queue: key.slice(0, at), when: key.slice(at + 1) as AlertKind };
}
