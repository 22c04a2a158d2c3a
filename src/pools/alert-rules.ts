import { type Duration, parseDuration } from "../core/time/duration.ts";
import { invalid } from "../core/errors/errors.ts";
import { countOf, showFigure, showMs, showPercent } from "../core/answer/figures.ts";
import { checkNames, checkObject } from "../core/input/options.ts";
import { show } from "../core/errors/show.ts";
import { checkCommand } from "./options.ts";

/** The rules of alerts, and when one is raised and cleared. Pure: alerts.ts evaluates them. */
export interface AlertOptions {
  rules: AlertRule[];
  /** How often they are evaluated, default 10 s. */
  every?: Duration | undefined;
  /** Where alerts go, in addition to the log and the stored events. */
  webhook?: string | undefined;
  command?: string[] | undefined;
}

export interface AlertRule {
  /** A queue, or `"*"` for every queue. */
  queue: string;
  when: AlertKind;
  /** Raised above this: a number, a share, or for `oldestAge` a duration. */
  above?: Duration | undefined;
  /** Cleared at this or below; default 80 % of `above`. */
  clear?: Duration | undefined;
  /** Raised or cleared only if that is true for this long. */
  for?: Duration | undefined;
}

export const ALERT_KINDS = [
  /** Falling behind: tasks that wait, and the age of the oldest. */
  ...(["depth", "oldestAge", "noWorkers"] as const),
  /** Failing: the share of failed attempts, more dead letters within ten minutes, a kind of failure that is new. */
  ...(["failureRate", "deadLetters", "newFailure"] as const),
  /** Paying too much: workers beyond those that the load needs. */
  "idleWorkers",
] as const;
export type AlertKind = (typeof ALERT_KINDS)[number];

export interface ResolvedRule {
  queue: string;
  when: AlertKind;
  above: number;
  clear: number;
  for: number;
}

interface Trait {
  /** The default; undefined: must be given. */
  above?: number;
  for?: number;
  isDuration?: true;
  describe: (value: number, above: number) => string;
}

const TRAITS: Record<AlertKind, Trait> = {
  depth: { describe: (value, above) => `${waiting(value)}, more than ${showFigure(above)}.` },
  oldestAge: {
    isDuration: true,
    describe: (value, above) => `The oldest task has waited ${showMs(value)}, longer than ${showMs(above)}.`,
  },
  noWorkers: {
    above: 0,
    for: 30_000,
    describe: (value) => `${waiting(value)}, and no worker is there.`,
  },
  failureRate: {
    above: 0.5,
    for: 30_000,
    describe: (value, above) =>
      `${showPercent(value)} of the attempts fail, more than ${showPercent(above)}.`,
  },
  deadLetters: {
    above: 0,
    describe: (value) => `${countOf(value, "task")} became dead letters within ten minutes.`,
  },
  newFailure: { above: 0, describe: () => "A kind of failure occurs that was not there before." },
  idleWorkers: {
    above: 1,
    for: 600_000,
    describe: (value) => `${countOf(value, "worker")} more than the load needs.`,
  },
};

function waiting(count: number): string {
  return `${countOf(count, "task")} ${count === 1 ? "waits" : "wait"}`;
}

export function describeAlert({ when, above }: ResolvedRule, value: number): string {
  return TRAITS[when].describe(value, above);
}

export interface ResolvedAlerts {
  rules: ResolvedRule[];
  every: number;
  webhook: string | null;
  command: string[] | null;
}

export function parseAlerts(options: AlertOptions): ResolvedAlerts {
  checkObject(options, "The options of alerts");
  checkNames(options, ["rules", "every", "webhook", "command"], "alert");
  const { rules, every = "10s", webhook, command } = options;
  if (!Array.isArray(rules) || rules.length === 0 || rules.length > 100)
    throw invalid(`rules must be an array of 1 to 100 rules; got ${show(rules)}.`);
  if (
    webhook !== undefined &&
    (typeof webhook !== "string" || !/^https?:/.test(webhook) || !URL.canParse(webhook))
  )
    throw invalid(`webhook must be an address such as http://127.0.0.1:8080/alerts.`);
  return {
    rules: rules.map(parseRule),
    every: parseDuration(every, "every", 20, 600_000),
    webhook: webhook ?? null,
    command: command === undefined ? null : checkCommand(command, "command"),
  };
}

function parseRule(rule: AlertRule): ResolvedRule {
  checkObject(rule, "A rule");
  checkNames(rule, ["queue", "when", "above", "clear", "for"], "rule");
  const { queue, when } = rule;
  if (typeof queue !== "string" || queue === "")
    throw invalid(`queue of a rule must be a name, or "*" for every queue; got ${show(queue)}.`);
  if (!ALERT_KINDS.includes(when))
    throw invalid(`when must be one of ${ALERT_KINDS.join(", ")}; got ${show(when)}.`);
  const trait = TRAITS[when];
  const above = rule.above ?? trait.above;
  if (above === undefined)
    throw invalid(`A rule about ${when} needs above: the value from which it is raised.`);
  const limit = parseValue(above, "above", trait);
  const clear = rule.clear === undefined ? limit * 0.8 : parseValue(rule.clear, "clear", trait);
  if (clear > limit)
    throw invalid(
      `clear must not be above the value from which the alert is raised; got ${show(rule.clear)}.`,
    );
  return { queue, when, above: limit, clear, for: parseDuration(rule.for ?? trait.for ?? 0, "for") };
}

function parseValue(value: Duration, what: string, { isDuration }: Trait): number {
  if (isDuration) return parseDuration(value, what);
  if (typeof value === "number" && Number.isFinite(value) && value >= 0) return value;
  throw invalid(`${what} must be a number from 0 on; got ${show(value)}.`);
}

/** Of one rule on one queue. `since`: when it first was on the other side; null: it is where it belongs. */
export interface AlertState {
  raised: boolean;
  since: number | null;
}

export const CALM: AlertState = { raised: false, since: null };

/** The next state. Hysteresis: raised above one value, cleared at a lower one, each only after a while. */
export function nextState(state: AlertState, value: number, rule: ResolvedRule, now: number): AlertState {
  const isOther = state.raised ? value <= rule.clear : value > rule.above;
  if (!isOther) return { ...state, since: null };
  const since = state.since ?? now;
  return now - since >= rule.for ? { raised: !state.raised, since: null } : { ...state, since };
}
