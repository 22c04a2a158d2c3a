import { DibsError } from "../core/errors/errors.ts";
import type { NamedPolicy } from "../core/queue/policy.ts";
import type { Port } from "../core/port.ts";
import { show } from "../core/errors/show.ts";
import type { PatternKey } from "../core/task/task.ts";
import { readAlertStates, visibleStates } from "./alert-states.ts";
import type {
  AlertStates,
  AuditPage,
  BulkJob,
  DeadOverview,
  Demo,
  DemoChange,
  FlowHistory,
  History,
  Me,
  NewBulkJob,
  PolicyPreview,
} from "./contract.ts";
import type { Dashboard } from "./dashboard.ts";
import { readDead } from "./dead-overview.ts";
import { noDemo } from "./demo-control.ts";
import type { LiveView } from "./live.ts";
import { previewPolicy } from "./preview-policy.ts";
import { type Found, type Search, searchTasks } from "./search.ts";
import type { Viewer } from "./viewer.ts";

/** Who asks, and with which rights. */
export interface Caller {
  /** The store, restricted to what the caller may do. */
  port: Port;
  /** `port` without audit entries: the batches of a job have one entry for all. */
  quietPort: Port;
  viewer: Viewer;
  /** Null without tokens. */
  name: string | null;
  scopes: string[];
  token: string | undefined;
  /** May do everything, and so start the demo and read the audit trail. */
  isAdmin: boolean;
  /** Throws FORBIDDEN unless the caller administers the queue; a star: all queues. */
  needAdmin(queue: string): void;
  audit(entry: { verb: string; queue?: string; task?: string }): void;
}

/** What one caller gets from the dashboard. The HTTP door calls it. */
export class Desk {
  readonly #dashboard: Dashboard;
  readonly #caller: Caller;

  constructor(dashboard: Dashboard, caller: Caller) {
    this.#dashboard = dashboard;
    this.#caller = caller;
  }

  me(): Me {
    const { name, scopes, isAdmin, port, viewer } = this.#caller;
    const { facts, demo } = this.#dashboard;
    const now = Math.floor(port.clock.read().wall);
    // Its name says where the store is: a file, or a host and a database.
    const store = viewer.readsAll ? facts.store : null;
    return { signIn: false, name, scopes, ...facts, store, now, demo: isAdmin && demo !== undefined };
  }

  /** Refuses a queue that the caller may not read, before the stream begins. */
  live(view: LiveView, signal: AbortSignal): AsyncGenerator<string, void, void> {
    const { viewer } = this.#caller;
    if (view.queue !== undefined && !viewer.reads(view.queue))
      throw new DibsError(
        "FORBIDDEN",
        `The token ${show(viewer.name)} does not allow this: it needs the scope read:${view.queue}.`,
      );
    return this.#dashboard.live.open(view, viewer, signal);
  }

  async history(queue: string, range: { from: number; to: number; points: number }): Promise<History> {
    const { port } = this.#caller;
    // Refused if the caller may not read the queue.
    await port.queues({ queue });
    return this.#dashboard.history.read(port, queue, range);
  }

  flow(): FlowHistory {
    return this.#dashboard.history.flow(this.#caller.viewer);
  }

  preview(queue: string, policy: NamedPolicy): Promise<PolicyPreview> {
    return previewPolicy(this.#caller.port, queue, policy);
  }

  search(search: Search): Promise<Found> {
    return searchTasks(this.#caller.port, search);
  }

  dead(by: PatternKey): Promise<DeadOverview> {
    return readDead(this.#caller.port, by);
  }

  async alerts(): Promise<AlertStates> {
    const { port, viewer } = this.#caller;
    return visibleStates(await readAlertStates(port), (queue) => viewer.reads(queue));
  }

  jobs(): BulkJob[] {
    return this.#dashboard.jobs.list(this.#caller.viewer);
  }

  job(id: string): BulkJob | undefined {
    return this.#dashboard.jobs.find(id, this.#caller.viewer);
  }

  async startJob(given: NewBulkJob): Promise<BulkJob> {
    const { quietPort, viewer } = this.#caller;
    if (given.queue !== undefined) this.#caller.needAdmin(given.queue);
    const job = await this.#dashboard.jobs.start(quietPort, viewer, given);
    this.#caller.audit({ verb: `${given.action} in bulk`, queue: given.queue ?? "*" });
    return { ...job };
  }

  /** Undefined: there is no such job for this caller. */
  async stopJob(id: string): Promise<BulkJob | undefined> {
    const job = this.job(id);
    if (!job) return undefined;
    this.#caller.needAdmin(job.queue ?? "*");
    await this.#dashboard.jobs.stop(id);
    this.#caller.audit({ verb: `stop ${job.action} in bulk`, queue: job.queue ?? "*" });
    return job;
  }

  audit(limit: number, before?: number): AuditPage {
    this.#caller.needAdmin("*");
    return this.#dashboard.audit.read(limit, before);
  }

  demo(): Demo {
    return this.#demo().read();
  }

  async changeDemo(change: DemoChange): Promise<Demo> {
    const changed = await this.#demo().change(change, this.#caller.token);
    if (change.running !== undefined)
      this.#caller.audit({ verb: change.running ? "start the demo" : "stop the demo", queue: "*" });
    return changed;
  }

  #demo() {
    this.#caller.needAdmin("*");
    const { demo } = this.#dashboard;
    if (!demo) throw noDemo();
    return demo;
  }
}
