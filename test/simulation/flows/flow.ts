import { isDeepStrictEqual } from "node:util";
import { PENDING_STATES, type TaskRecord } from "../../../src/core/task/task.ts";
import { verificationQueue } from "../../../src/core/handler/verification.ts";
import type { Task } from "../../../src/index.ts";
import { type Crash, Process } from "./process.ts";
import type { Scenario } from "./scenario.ts";
import { type FlowEngine, World } from "./world.ts";

const WORK = "work";
const NEXT = "next";
const VERIFY = verificationQueue(WORK);
const TOPIC = "work.done";
const POLICY = {
  lease: "2s",
  maxAttempts: 50,
  elsewhere: 0,
  backoff: { type: "fixed", delay: "200ms", jitter: 0 },
} as const;
/** More than all leases, timeouts and backoffs of a flow together. */
const LONG_ENOUGH_MS = 240_000;
const LOOK_EVERY_MS = 1_000;

export type Role = "worker" | "verifier";

/**
 * One run of a scenario: a process that works, one that verifies and, if one must die, a third one that replaces it.
 */
export class Flow {
  readonly #scenario: Scenario;
  readonly #world: World;
  readonly #roles = new Map<Role, Process>();
  readonly #crash: { role: Role; at: Crash } | undefined;
  /** How often each step ran, by task and name. */
  readonly #taken = new Map<string, number>();
  #handlerFailures = 0;
  #verifierFailures = 0;
  #ids: string[] = [];
  /** The queues of the groups that follow the topic. */
  readonly #followers: string[] = [];

  constructor(engine: FlowEngine, scenario: Scenario, crash?: { role: Role; at: Crash }) {
    this.#scenario = scenario;
    this.#world = new World(engine);
    this.#crash = crash;
  }

  /**
   * Returns how many calls each process has made. Throws if something is lost, duplicated, stuck or visible too early.
   */
  async run(): Promise<Record<Role, number>> {
    try {
      await this.#start();
      await this.#waitForEnds();
      await this.#check();
      const callsOf = (role: Role): number => this.#roles.get(role)?.calls ?? 0;
      return { worker: callsOf("worker"), verifier: callsOf("verifier") };
    } finally {
      await this.#world.end();
    }
  }

  async #start(): Promise<void> {
    const { tasks, grouped, groups, verdicts, waits } = this.#scenario;
    const producer = new Process(this.#world);
    for (let n = 0; n < groups; n++) {
      const subscription = producer.dibs.subscription(TOPIC, `group-${n}`);
      await subscription.ready;
      this.#followers.push(subscription.name);
    }
    const queue = producer.dibs.queue<number>(WORK, POLICY);
    if (verdicts) await queue.configure({ verified: true });
    const options = grouped ? { groupKey: "g" } : {};
    const added = queue.addMany(Array.from({ length: tasks }, (_, n) => ({ data: n, ...options })));
    this.#ids = (await added).map(({ id }) => id);
    if (waits?.signalAfter === 0) await this.#signalAll(producer);
    else if (waits?.signalAfter != null)
      this.#world.clock.after(waits.signalAfter, () =>
        this.#world.clock.standStill(this.#signalAll(producer)),
      );
    this.#roles.set("worker", this.#begin(["worker"]));
    if (verdicts) this.#roles.set("verifier", this.#begin(["verifier"]));
  }

  async #signalAll({ dibs }: Process): Promise<void> {
    await Promise.all(this.#ids.map((id, n) => dibs.task(id).signal("word", `said ${n}`)));
  }

  #begin(roles: Role[]): Process {
    const { role, at } = this.#crash ?? {};
    const process = new Process(
      this.#world,
      role && roles.length === 1 && roles[0] === role ? at : undefined,
    );
    const queue = process.dibs.queue<number>(WORK, POLICY);
    if (roles.includes("verifier") && this.#scenario.verdicts)
      queue.verify((task) => this.#judge(process, task));
    if (roles.includes("worker")) queue.work((task) => this.#handle(process, task), { concurrency: 2 });
    return process;
  }

  async #handle(process: Process, task: Task<number>): Promise<unknown> {
    const { steps, waits, adds, groups, failures } = this.#scenario;
    const values: unknown[] = [];
    for (let i = 0; i < steps; i++) {
      values.push(
        await task.step(`step ${i}`, () => {
          const name = `${task.id} ${i}`;
          if (!process.isDead) this.#taken.set(name, (this.#taken.get(name) ?? 0) + 1);
          return { of: task.data, step: i };
        }),
      );
    }
    if (!process.isDead && this.#handlerFailures < failures) {
      this.#handlerFailures++;
      throw new Error("the handler broke");
    }
    const word = waits && (await this.#listen(task, waits.timeout));
    for (let i = 0; i < adds; i++) await task.add(process.dibs.queue(NEXT), { of: task.data, add: i });
    if (groups > 0) await task.publish(process.dibs.topic(TOPIC), { of: task.data });
    const refused = await this.#refusals(task.id);
    this.#expect(
      (task.feedback !== undefined) === refused > 0,
      `attempt ${task.attempt} after ${refused} refusals was told ${task.feedback}`,
    );
    return { of: task.data, values, word };
  }

  async #listen(task: Task<number>, timeout: number | null): Promise<unknown> {
    try {
      return await task.waitFor("word", timeout === null ? {} : { timeout });
    } catch (error) {
      if ((error as { code?: string }).code === "TIMEOUT") return "nothing came";
      throw error;
    }
  }

  async #judge(process: Process, task: { id: string }): Promise<true | { refuse: string }> {
    const { refusals, failures } = this.#scenario.verdicts!;
    if (!process.isDead && this.#verifierFailures < failures) {
      this.#verifierFailures++;
      throw new Error("the verifier broke");
    }
    const record = await this.#record(task.id);
    this.#expect(record.result === null, `task ${task.id} shows its result before the verdict`);
    this.#expect((await this.#added(task.id)) === 0, `task ${task.id} has added before the verdict`);
    return (await this.#refusals(task.id)) < refusals ? { refuse: "not good enough" } : true;
  }

  async #waitForEnds(): Promise<void> {
    const { clock } = this.#world;
    const end = clock.read().awake + LONG_ENOUGH_MS;
    let succeeded = false;
    while (clock.read().awake < end) {
      await clock.advance(LOOK_EVERY_MS);
      if (this.#violation) throw this.#violation;
      if (!succeeded && this.#crash && this.#roles.get(this.#crash.role)!.isDead) {
        succeeded = true;
        this.#begin(["worker", "verifier"]);
      }
      if ((await this.#pending()) === 0) return;
    }
    throw new Error(`stuck: ${JSON.stringify(await Promise.all(this.#ids.map((id) => this.#record(id))))}`);
  }

  async #pending(): Promise<number> {
    const stats = await this.#world.ask({ verb: "stats", queue: WORK }, { verb: "stats", queue: VERIFY });
    return stats
      .flatMap((outcome) => ("ok" in outcome ? PENDING_STATES.map((state) => outcome.ok.depth[state]) : []))
      .reduce((sum, count) => sum + count, 0);
  }

  async #check(): Promise<void> {
    for (const [n, id] of this.#ids.entries()) await this.#checkTask(n, id);
    const [added] = await this.#world.ask({ verb: "stats", queue: NEXT });
    const { tasks, adds } = this.#scenario;
    this.#expect("ok" in added && added.ok.depth.ready === tasks * adds, "tasks were added twice or never");
    for (const queue of this.#followers) {
      const [copies] = await this.#world.ask({ verb: "stats", queue });
      const ready = "ok" in copies ? copies.ok.depth.ready : 0;
      this.#expect(ready === tasks, `${queue} has ${ready} copies of ${tasks}`);
    }
    if (this.#violation) throw this.#violation;
  }

  async #checkTask(n: number, id: string): Promise<void> {
    const { steps, waits, verdicts } = this.#scenario;
    const record = await this.#record(id);
    this.#expect(record.state === "done", `task ${id} is ${record.state}`);
    const result = JSON.parse((record.result as string | null) ?? "null") as { word: unknown };
    const values = Array.from({ length: steps }, (_, step) => ({ of: n, step }));
    const words = waits
      ? [
          ...(waits.signalAfter === null ? [] : [`said ${n}`]),
          ...(waits.timeout === 4_000 ? ["nothing came"] : []),
        ]
      : [null];
    const isRight = words.some((word) => isDeepStrictEqual(result, { of: n, values, word }));
    this.#expect(isRight, `task ${id} brought ${JSON.stringify(result)}`);
    const refused = await this.#refusals(id);
    this.#expect(refused === (verdicts?.refusals ?? 0), `task ${id} was refused ${refused} times`);
    // Once for each life of its steps, and once more if a process died before its value was stored.
    const most = 1 + refused + (this.#crash ? 1 : 0);
    for (let step = 0; step < steps; step++) {
      const taken = this.#taken.get(`${id} ${step}`) ?? 0;
      this.#expect(taken >= 1 && taken <= most, `step ${step} of ${id} was taken ${taken} times`);
    }
    const [left] = await this.#world.ask({ verb: "steps", id });
    this.#expect("ok" in left && left.ok.length === 0, `task ${id} is done, and its steps are kept`);
  }

  async #record(id: string): Promise<TaskRecord> {
    const [outcome] = await this.#world.ask({ verb: "get", id });
    if ("refused" in outcome) throw new Error(outcome.refused.message);
    return outcome.ok;
  }

  async #refusals(id: string): Promise<number> {
    const [outcome] = await this.#world.ask({ verb: "history", id });
    return "ok" in outcome ? outcome.ok.filter((row) => row.outcome === "refused").length : 0;
  }

  /** How many tasks this one has added. */
  async #added(id: string): Promise<number> {
    const n = this.#ids.indexOf(id);
    const [outcome] = await this.#world.ask({ verb: "list", queue: NEXT, state: "ready", limit: 1_000 });
    if ("refused" in outcome) return 0;
    return outcome.ok.tasks.filter(({ data }) => (JSON.parse(data as string) as { of: number }).of === n)
      .length;
  }

  /** Stored, because it may be found in a handler, whose errors only its worker sees. */
  #violation: Error | undefined;

  #expect(holds: boolean, otherwise: string): void {
    if (!holds) this.#violation ??= new Error(otherwise);
  }
}
