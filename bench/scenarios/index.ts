import type { Scenario } from "../scenario.ts";
import { addMany } from "./add-many.ts";
import { add } from "./add.ts";
import { connected } from "./connected.ts";
import { dashboard, dashboardDrain } from "./dashboard.ts";
import { dead } from "./dead.ts";
import { defaults } from "./defaults.ts";
import { delayed } from "./delayed.ts";
import { depth } from "./depth.ts";
import { drain, drainHandToMouth } from "./drain.ts";
import { elsewhere } from "./elsewhere.ts";
import { eventLoop } from "./event-loop.ts";
import { features } from "./features.ts";
import { groups } from "./groups.ts";
import { limits } from "./limits.ts";
import { memory } from "./memory.ts";
import { parked } from "./parked.ts";
import { payloadSizes } from "./payloads.ts";
import { pickUp } from "./pick-up.ts";
import { pipeline } from "./pipeline.ts";
import { postgresDepth } from "./postgres-depth.ts";
import { postgresGroups } from "./postgres-groups.ts";
import { postgresMany } from "./postgres-many.ts";
import { postgresStatistics } from "./postgres-statistics.ts";
import { priorities } from "./priorities.ts";
import { processes } from "./processes.ts";
import { queues } from "./queues.ts";
import { readers } from "./readers.ts";
import { scaling } from "./scaling.ts";
import { programs } from "./programs.ts";
import { shell } from "./shell.ts";
import { stampede } from "./stampede.ts";
import { startUp } from "./start-up.ts";
import { topics } from "./topics.ts";
import { waitingMessages } from "./waiting-messages.ts";

export const SCENARIOS: readonly Scenario[] = [
  defaults,
  add,
  addMany,
  drain,
  drainHandToMouth,
  processes,
  pickUp,
  priorities,
  delayed,
  payloadSizes,
  waitingMessages,
  depth,
  groups,
  limits,
  parked,
  dead,
  features,
  elsewhere,
  scaling,
  startUp,
  eventLoop,
  queues,
  topics,
  pipeline,
  stampede,
  memory,
  connected,
  readers,
  dashboard,
  dashboardDrain,
  shell,
  programs,
  postgresDepth,
  postgresStatistics,
  postgresMany,
  postgresGroups,
];

export function findScenario(name: string): Scenario {
  const found = SCENARIOS.find((scenario) => scenario.name === name);
  if (found === undefined) throw new Error(`There is no scenario "${name}".`);
  return found;
}
