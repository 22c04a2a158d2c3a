import type { Logger } from "../core/process/logger.ts";
import type { Port } from "../core/port.ts";
import { AuditTrail } from "./audit-trail.ts";
import type { Me } from "./contract.ts";
import type { DemoControl } from "./demo-control.ts";
import { History } from "./history.ts";
import { Jobs } from "./jobs.ts";
import { Live } from "./live.ts";

export interface DashboardParts {
  /** The whole store: what each caller may see of it is decided for each call. */
  store: Port;
  logger: Logger;
  version: string;
  /** How people know the store, without secrets. */
  storeName: string | null;
  engine: Me["engine"];
  demo?: DemoControl | undefined;
}

/** What the pages of one server share: the live feed, the history, the jobs, the audit trail and the demo. */
export class Dashboard {
  readonly facts: Pick<Me, "version" | "startedAt"> & { store: string | null; engine: Me["engine"] };
  readonly history: History;
  readonly jobs = new Jobs();
  readonly live: Live;
  readonly audit = new AuditTrail();
  readonly demo: DemoControl | undefined;

  constructor({ store, logger, version, storeName, engine, demo }: DashboardParts) {
    const startedAt = Math.floor(store.clock.read().wall);
    this.facts = { version, startedAt, store: storeName, engine };
    this.demo = demo;
    this.history = new History(store, logger);
    this.live = new Live(store, {
      jobs: this.jobs,
      history: this.history,
      hello: { version, startedAt },
    });
  }

  /** Before the store is closed: ends the demo and the jobs, and writes the history. */
  async stop(): Promise<void> {
    this.live.close();
    await Promise.all([this.demo?.stop(), this.jobs.stopAll(), this.history.stop()]);
  }
}
