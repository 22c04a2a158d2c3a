import { Random } from "../random.ts";

/** What a flow does, drawn from a seed. */
export interface Scenario {
  tasks: number;
  /** All tasks in one group, or each without a group. */
  grouped: boolean;
  steps: number;
  /** How often handlers fail before they succeed. */
  failures: number;
  adds: number;
  /** Groups that follow the topic to which each task publishes. */
  groups: number;
  waits: Waiting | null;
  verdicts: Verdicts | null;
}

export interface Waiting {
  /** After how many milliseconds the signal is sent: before the task has started, or later; null: never. */
  signalAfter: number | null;
  timeout: number | null;
}

export interface Verdicts {
  /** How often results are refused before one is accepted. */
  refusals: number;
  /** How often verifiers fail before they give a verdict. */
  failures: number;
}

export function drawScenario(seed: number): Scenario {
  const { between, chance, pick } = new Random(seed);
  const scenario: Scenario = {
    tasks: pick([1, 1, 2]),
    grouped: chance(0.3),
    steps: between(0, 3),
    failures: pick([0, 0, 1]),
    adds: between(0, 2),
    waits: chance(0.6) ? drawWaiting() : null,
    verdicts: chance(0.6) ? { refusals: pick([0, 0, 1, 2]), failures: pick([0, 0, 1]) } : null,
    groups: pick([0, 0, 1, 3]),
  };
  if (scenario.steps === 0 && !scenario.waits && !scenario.verdicts) scenario.steps = 1;
  return scenario;

  function drawWaiting(): Waiting {
    const timeout = pick([null, 4_000, 60_000]);
    const signalAfter = timeout === 4_000 && chance(0.5) ? null : pick([0, 500, 2_500]);
    return { signalAfter, timeout };
  }
}
