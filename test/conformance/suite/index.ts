import { describe } from "vitest";
import { add } from "./add.ts";
import { badInput } from "./bad-input.ts";
import { callOrder } from "./call-order.ts";
import { cancel } from "./cancel.ts";
import { change } from "./change.ts";
import { changingLimits } from "./changing-limits.ts";
import { children } from "./children.ts";
import { claims } from "./claim.ts";
import { claimSizes } from "./claim-sizes.ts";
import { clock } from "./clock.ts";
import { concurrency } from "./concurrency.ts";
import { doorDocuments, noDoorDocuments } from "./door-documents.ts";
import { deadLetters } from "./dead-letters.ts";
import { events } from "./events.ts";
import { fences } from "./fences.ts";
import { groups } from "./groups.ts";
import type { Harness } from "./harness.ts";
import { heldBack } from "./held-back.ts";
import { idempotency } from "./idempotency.ts";
import { type Start, starter } from "./kit.ts";
import { leases } from "./leases.ts";
import { ledger } from "./ledger.ts";
import { limits } from "./limits.ts";
import { lists } from "./lists.ts";
import { pages } from "./pages.ts";
import { policies } from "./policies.ts";
import { progress } from "./progress.ts";
import { queues } from "./queues.ts";
import { rates } from "./rates.ts";
import { redrive } from "./redrive.ts";
import { results } from "./results.ts";
import { retention } from "./retention.ts";
import { retry } from "./retry.ts";
import { retryElsewhere } from "./retry-elsewhere.ts";
import { runSignals } from "./run-signals.ts";
import { runs } from "./runs.ts";
import { schedules, sharedSchedules } from "./schedules.ts";
import { searches } from "./searches.ts";
import { sessions } from "./sessions.ts";
import { settle } from "./settle.ts";
import { severalOpeners } from "./several-openers.ts";
import { stats } from "./stats.ts";
import { overflow } from "./overflow.ts";
import { steps } from "./steps.ts";
import { subscriptions } from "./subscriptions.ts";
import { supervision } from "./supervision.ts";
import { topics } from "./topics.ts";
import { noTransactions, transactions } from "./transactions.ts";
import { stageCosts } from "./stage-costs.ts";
import { stageGraphs } from "./stage-graphs.ts";
import { runTransactions } from "./run-transactions.ts";
import { transfer } from "./transfer.ts";
import { ttl } from "./ttl.ts";
import { turns } from "./turns.ts";
import { uniqueInTransactions, uniqueTasks } from "./unique.ts";
import { unhold } from "./unhold.ts";
import { verification } from "./verification.ts";
import { waitingClaims } from "./waiting-claims.ts";
import { windows } from "./windows.ts";
import { workers } from "./workers.ts";

type Theme = (start: Start) => void;

const THEMES = {
  queues,
  policies,
  add,
  limits,
  badInput,
  claims,
  claimSizes,
  waitingClaims,
  callOrder,
  fences,
  settle,
  progress,
  leases,
  sessions,
  clock,
  retry,
  retryElsewhere,
  groups,
  concurrency,
  rates,
  turns,
  windows,
  changingLimits,
  unhold,
  ttl,
  overflow,
  retention,
  idempotency,
  uniqueTasks,
  ledger,
  deadLetters,
  lists,
  searches,
  pages,
  redrive,
  transfer,
  results,
  cancel,
  change,
  steps,
  children,
  verification,
  runs,
  runSignals,
  stageCosts,
  stageGraphs,
  topics,
  subscriptions,
  schedules,
  supervision,
  stats,
  heldBack,
  workers,
  events,
} satisfies Record<string, Theme>;

/** For stores that several processes may open at once. */
const SHARED_THEMES = { severalOpeners, sharedSchedules } satisfies Record<string, Theme>;

/** For stores that can join the caller's transaction, and for those that cannot. */
const WITH_TRANSACTIONS = { transactions, uniqueInTransactions, runTransactions } satisfies Record<
  string,
  Theme
>;
const WITHOUT_TRANSACTIONS = { noTransactions } satisfies Record<string, Theme>;

export type ThemeName = keyof typeof THEMES | keyof typeof SHARED_THEMES | keyof typeof WITH_TRANSACTIONS;

/** Runs every case that a store must pass, or only those of some themes. A change of what dibs promises starts here. */
export function conformance(name: string, harness: Harness, only?: ThemeName[]): void {
  const start = starter(harness);
  const themes: Record<string, Theme> = {
    ...THEMES,
    ...(harness.transactions ? WITH_TRANSACTIONS : WITHOUT_TRANSACTIONS),
    ...(harness.isRemote ? { noDoorDocuments } : { doorDocuments }),
    ...(harness.shared && SHARED_THEMES),
  };
  describe(`${name} conforms`, () => {
    for (const theme of only ?? Object.keys(themes)) themes[theme]!(start);
  });
}
