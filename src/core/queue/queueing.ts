/**
 * Queueing theory for one line in front of several equal servers: Poisson arrivals, exponential service times (M/M/c).
 * Pools, advice and the simulation use it. Rates are per second, times are in milliseconds.
 *
 * The load is `arrivals × service time`: how many servers are busy on average. It has no unit (Erlang).
 */
export function loadOf(arrivalsPerSecond: number, serviceMs: number): number {
  return (arrivalsPerSecond * serviceMs) / 1_000;
}

/** Erlang C: the probability that an arrival has to wait. 1 if the servers cannot keep up. */
export function probabilityOfWait(load: number, servers: number): number {
  if (load <= 0) return 0;
  if (servers <= load) return 1;
  return fromBlocking(load, servers, blocking(load, servers));
}

/** The mean wait before the service starts; infinite if the servers cannot keep up. */
export function meanWait(load: number, serviceMs: number, servers: number): number {
  if (load <= 0) return 0;
  if (servers <= load) return Number.POSITIVE_INFINITY;
  return (probabilityOfWait(load, servers) * serviceMs) / (servers - load);
}

/** The wait that a share of the arrivals, such as 0.95, does not exceed; infinite if the servers cannot keep up. */
export function waitQuantile(load: number, serviceMs: number, servers: number, share: number): number {
  if (load <= 0) return 0;
  if (servers <= load) return Number.POSITIVE_INFINITY;
  return quantileFrom(probabilityOfWait(load, servers), load, serviceMs, servers, share);
}

/** What the servers must achieve. */
export interface ServiceGoal {
  /** This share of the arrivals waits at most `waitMs`. */
  share: number;
  waitMs: number;
  /** The servers are busy at most this part of the time, between 0 and 1. */
  utilisation: number;
}

/** The smallest number of servers that reaches the goal, or `most` if even `most` servers do not. */
export function serversFor(load: number, serviceMs: number, goal: ServiceGoal, most: number): number {
  if (load <= 0) return 0;
  const least = Math.ceil(load / goal.utilisation - ROUNDING);
  let blocked = 1;
  for (let servers = 1; servers < most; servers++) {
    blocked = nextBlocking(load, servers, blocked);
    if (servers < least || servers <= load) continue;
    const waits = fromBlocking(load, servers, blocked);
    if (quantileFrom(waits, load, serviceMs, servers, goal.share) <= goal.waitMs) return servers;
  }
  return most;
}

/** Rounds away binary noise: 2.0000000000000004 servers are two. */
const ROUNDING = 1e-9;

/** Erlang B, by its recurrence, which neither overflows nor loses digits. */
function blocking(load: number, servers: number): number {
  let blocked = 1;
  for (let count = 1; count <= servers; count++) blocked = nextBlocking(load, count, blocked);
  return blocked;
}

function nextBlocking(load: number, servers: number, before: number): number {
  return (load * before) / (servers + load * before);
}

function fromBlocking(load: number, servers: number, blocked: number): number {
  return (servers * blocked) / (servers - load * (1 - blocked));
}

function quantileFrom(
  waits: number,
  load: number,
  serviceMs: number,
  servers: number,
  share: number,
): number {
  // The wait of those that wait is exponentially distributed, with the rate of the free capacity.
  return waits <= 1 - share ? 0 : (Math.log(waits / (1 - share)) * serviceMs) / (servers - load);
}
