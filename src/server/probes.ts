import type { Clock } from "../core/time/clock.ts";
import { DibsError } from "../core/errors/errors.ts";
import type { Port } from "../core/port.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { Gauge } from "../metrics/series.ts";
import { checkStore } from "./check-store.ts";

/**
 * What those who operate a server ask it: `/healthz`, `/readyz` and `/metrics`. The server answers these paths itself,
 * and passes the others to its doors.
 */

const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";
const JSON_TYPE = "application/json";

export interface ProbeOptions {
  /** Not measured: probes would count as calls of clients. */
  store: Port;
  clock: Clock;
  metrics: Metrics;
  /** False as soon as the server is being stopped. */
  isReady: () => boolean;
  count: () => { clients: number; connections: number };
}

export class Probes {
  readonly #options: ProbeOptions;
  readonly #clients = new Gauge("dibs_clients", "Clients that are connected or can still resume.", []);
  readonly #connections = new Gauge("dibs_connections", "Open TCP connections, of any kind.", []);
  readonly #answers: Record<string, () => Promise<{ type: string; text: string }>> = {
    "/healthz": async () => ({ type: JSON_TYPE, text: JSON.stringify({ status: "alive" }) }),
    "/readyz": () => this.#readiness(),
    "/metrics": () => this.#scrape(),
  };

  constructor(options: ProbeOptions) {
    this.#options = options;
  }

  has(path: string): boolean {
    return Object.hasOwn(this.#answers, path);
  }

  answer(path: string): Promise<{ type: string; text: string }> {
    return this.#answers[path]!();
  }

  async #readiness(): Promise<{ type: string; text: string }> {
    const { store, clock, isReady } = this.#options;
    if (!isReady()) throw new DibsError("UNAVAILABLE", "This server is being stopped.");
    await checkStore(store, clock);
    return { type: JSON_TYPE, text: JSON.stringify({ status: "ready" }) };
  }

  async #scrape(): Promise<{ type: string; text: string }> {
    const { store, metrics, count } = this.#options;
    const { clients, connections } = count();
    this.#clients.set({}, clients);
    this.#connections.set({}, connections);
    return { type: METRICS_TYPE, text: await metrics.scrape(store, [this.#clients, this.#connections]) };
  }
}
