import { refuseSurplus } from "../core/input/arguments.ts";
import { type DibsError, invalid, isDibsError } from "../core/errors/errors.ts";
import { encodeJson } from "../core/input/json.ts";
import type { Json, Payload } from "../core/input/json-type.ts";
import type { Logger } from "../core/process/logger.ts";
import { checkNames, checkObject } from "../core/input/options.ts";
import { checkQueueName } from "../core/queue/queue-name.ts";
import { type RunStart, type RunState, type Stage, stageQueue } from "../core/run/run.ts";
import { withFirstCost } from "../core/run/stage-cost.ts";
import { show } from "../core/errors/show.ts";
import type { NewTask } from "../core/task/task.ts";
import type { AddTarget } from "../worker/pending-additions.ts";
import { resolveWork } from "../worker/options.ts";
import type { Handler } from "../worker/task.ts";
import type { Worker } from "../worker/worker.ts";
import {
  type AddManyOptions,
  checkManyOptions,
  type Item,
  parseAddOptions,
  type PartOptions,
  refuseTx,
  TX_OF_ACK,
  TX_OF_MANY,
} from "./add-options.ts";
import type { Encode } from "./definition.ts";
import { type DefinedStage, defineStage, handlerOf } from "./pipeline-stage.ts";
import { PipelineWorker } from "./pipeline-worker.ts";
import type { Owner, Queue } from "./queue.ts";
import type {
  Adding,
  After,
  AfterOption,
  EndsWith,
  InputOf,
  IsKnown,
  IsParted,
  JoinedOf,
  JoinOptions,
  Passed,
  PartedBefore,
  PipelineWorkOptions,
  RunOptions,
  RunResult,
  StageHandler,
  StageOptions,
  StageTypes,
} from "./pipeline-types.ts";
import { AddedRun, RunHandle, type RunInfo, runInfo } from "./run-handle.ts";

// The handle of a pipeline: `dibs.pipeline()` creates it, users define its stages and add inputs.

/**
 * A pipeline: named stages, each with its own queue. A stage follows the one before it, or those that `after` names.
 *
 * `In` is the input of a run. `Data` is the output of the last stage, and `Parted` says whether the run is split into
 * parts there. `Stages` has the types of all stages, `Last` is the name of the last one, and `Ends` are those that no
 * stage follows.
 */
export class Pipeline<
  In = unknown,
  Data = Json<In>,
  Parted extends boolean = false,
  Stages extends StageTypes = {},
  Last extends string = never,
  Ends extends string = never,
> implements AddTarget<In, PartOptions> {
  readonly name: string;
  readonly #owner: Owner;
  readonly #logger: Logger;
  readonly #stages: DefinedStage[] = [];
  #defined: Promise<void> | undefined;

  constructor(owner: Owner, logger: Logger, name: string) {
    this.name = checkQueueName(name);
    this.#owner = owner;
    this.#logger = logger;
  }

  /**
   * Adds a stage, which follows the one before it, or those that `after` names. What its handler returns becomes
   * `task.data` of the stages that follow; `each(items)` makes a part of every item.
   */
  stage<Out, const Name extends string = string, const Order extends After<Stages> = undefined>(
    name: Name,
    handler: StageHandler<InputOf<Stages, Order, Data>, Out>,
    options: StageOptions<InputOf<Stages, Order, Data>> & AfterOption<Order> = {},
  ): Pipeline<
    In,
    Json<Passed<Out>>,
    IsParted<Out, PartedBefore<Stages, Order, Parted>>,
    Adding<
      Stages,
      Name,
      [InputOf<Stages, Order, Data>, Out, IsParted<Out, PartedBefore<Stages, Order, Parted>>]
    >,
    IsKnown<Name> extends true ? Name : Last,
    IsKnown<Name> extends true ? EndsWith<Ends, Order, Last, Name> : Ends
  > {
    return this.#define(name, false, handler, options) as never;
  }

  /**
   * Adds a stage that starts once, when all parts of a run have arrived: `task.data` is the list of their results, in
   * order. After several stages, it is an object with a list of each.
   */
  join<Out, const Name extends string = string, const Order extends After<Stages> = undefined>(
    name: Name,
    handler: StageHandler<JoinedOf<Stages, Order, Data>, Out>,
    options: JoinOptions & AfterOption<Order> = {},
  ): Pipeline<
    In,
    Json<Passed<Out>>,
    IsParted<Out, false>,
    Adding<Stages, Name, [JoinedOf<Stages, Order, Data>, Out, IsParted<Out, false>]>,
    IsKnown<Name> extends true ? Name : Last,
    IsKnown<Name> extends true ? EndsWith<Ends, Order, Last, Name> : Ends
  > {
    return this.#define(name, true, handler, options) as never;
  }

  #define(
    name: string,
    joins: boolean,
    handler: Handler<never>,
    options: StageOptions<never> & AfterOption<unknown>,
  ): this {
    if (this.#defined) {
      throw invalid(`Pipeline "${this.name}" is in use: define its stages before its first add() or work().`);
    }
    this.#stages.push(defineStage(this.#owner, this.name, this.#stages, { name, joins, handler, options }));
    return this;
  }

  get stages(): Stage[] {
    return this.#stages.map(({ name, joins, after, cost }) => ({
      ...{ name, joins },
      ...(after !== undefined && { after }),
      ...(cost !== undefined && { cost }),
    }));
  }

  /** The queue of a stage, for its statistics, dead letters and verifier. */
  queue<Name extends keyof Stages & string>(
    stage: Name,
  ): Queue<Stages[Name][0], Stages[Name][1], Stages[Name][0]> {
    return this.#stage(stage).queue;
  }

  #stage(name: string): DefinedStage {
    const found = this.#stages.find((stage) => stage.name === name);
    if (found) return found;
    const known = this.#stages.map((stage) => `"${stage.name}"`).join(", ");
    throw invalid(
      `Pipeline "${this.name}" has no stage ${show(name)} in this process; it has ${known || "none"}.`,
    );
  }

  // ── Runs ────────────────────────────────────────────────────────────────────────────────────────────────

  async add(
    input: Payload<In>,
    options: RunOptions = {},
  ): Promise<AddedRun<RunResult<Data, Parted, Stages, Ends>>> {
    const task = await this.#firstTask(input, options);
    const [, [added]] = await Promise.all([this.declare(), this.#owner.port.add([task], { tx: options.tx })]);
    return new AddedRun(this.#owner.port, this.name, added!);
  }

  /** Adds several runs: all of them or none. */
  async addMany(
    inputs: Item<In>[],
    options: AddManyOptions = {},
  ): Promise<AddedRun<RunResult<Data, Parted, Stages, Ends>>[]> {
    checkManyOptions(options);
    if (!Array.isArray(inputs))
      throw invalid(`addMany() takes an array of { data, …options }; got ${show(inputs)}.`);
    const tasks = await Promise.all(
      inputs.map((input, index) => {
        if (typeof input !== "object" || input === null)
          throw invalid(`Run ${index} of addMany() must be { data, …options }; got ${show(input)}.`);
        const { data, ...own } = input;
        refuseTx(own, TX_OF_MANY);
        return this.#firstTask(data, own);
      }),
    );
    const [, added] = await Promise.all([this.declare(), this.#owner.port.add(tasks, { tx: options.tx })]);
    return added.map((task) => new AddedRun(this.#owner.port, this.name, task));
  }

  /** A run that was added before, by any process. */
  run(id: string): RunHandle<RunResult<Data, Parted, Stages, Ends>> {
    return new RunHandle(this.#owner.port, id);
  }

  /** A page of its runs, the latest first. Pass `next` as `after` to get the following page. */
  async runs(
    options: { state?: RunState | undefined; after?: number | undefined; limit?: number | undefined } = {},
  ): Promise<{ runs: RunInfo[]; next: number | null }> {
    checkObject(options, "The options of runs");
    checkNames(options, ["state", "after", "limit"], "runs");
    const { state, after, limit = 50 } = options;
    const { runs, next } = await this.#owner.port.runs({ pipeline: this.name, state, after, limit });
    return { runs: runs.map(runInfo), next };
  }

  /** Has no value, and only carries the type: see AddTarget. */
  "~takes"?(data: In, options?: PartOptions): void;

  /** @internal Checks and encodes a run for `task.add`, which stores it later. */
  async prepare(input: In, options: PartOptions = {}): Promise<NewTask> {
    refuseTx(options, TX_OF_ACK);
    return this.#firstTask(input, options);
  }

  /** The task that begins a run. */
  async #firstTask(input: In, options: RunOptions): Promise<NewTask> {
    const rest = parseAddOptions(options, () => this.#owner.port.clock.read().wall);
    const encode: Encode = this.#stages[0]?.encode ?? ((value) => encodeJson(value, "data"));
    const data = await encode(input);
    const run = await this.#runStart();
    const costOf = rest.cost === undefined ? this.#stages[0]?.costOf : undefined;
    const cost = costOf && { cost: costOf(JSON.parse(data)) };
    return withFirstCost({ ...rest, ...cost, queue: stageQueue(this.name, run.stages[0]!.name), data, run });
  }

  /** The stages that a run begins with. If this handle has none, those that another process has defined. */
  async #runStart(): Promise<RunStart> {
    if (this.#stages.length > 0) return { pipeline: this.name, stages: this.stages };
    const { items } = await this.#owner.port.pipelines({ name: this.name });
    const [known] = items;
    if (known) return { pipeline: this.name, stages: known.stages };
    throw invalid(
      `Pipeline "${this.name}" has no definition yet: give it stages here, or start a process that works on it.`,
    );
  }

  /** @internal Publishes the definition and sends the policies of the stages, once. */
  declare(): Promise<void> {
    this.#defined ??= this.#sendDefinition();
    return this.#defined;
  }

  async #sendDefinition(): Promise<void> {
    if (this.#stages.length === 0) return;
    try {
      const [previous] = await Promise.all([
        this.#owner.port.definePipeline(this.name, this.stages).catch((error: unknown) => {
          if (!isForbidden(error)) throw error;
          this.#owner.warnOnce(`${error.message} Runs that this program adds contain their own stages.`);
          return null;
        }),
        // Workers declare the queues that this program's token does not cover.
        ...this.#stages.map(({ queue }) => queue.declare().catch(unlessForbidden)),
      ]);
      if (previous) this.#warnOfMissingStages(previous);
    } catch (error) {
      // The next operation tries again.
      this.#defined = undefined;
      throw error;
    }
  }

  /** Runs that began with another definition need its stages until they end. */
  #warnOfMissingStages(previous: Stage[]): void {
    const missing = previous.filter(({ name }) => !this.#stages.some((stage) => stage.name === name));
    if (missing.length === 0) return;
    const names = missing.map(({ name }) => `"${name}"`).join(", ");
    this.#logger.warn(
      `Pipeline "${this.name}" was defined before with ${names}, which this process does not have. Runs that began with ` +
        `that definition still need these stages: keep a worker of them until such runs have ended.`,
    );
  }

  // ── Work ────────────────────────────────────────────────────────────────────────────────────────────────

  /** Works on all stages, or on the named ones: several processes may share the stages. */
  work(options: PipelineWorkOptions<keyof Stages & string> = {}): PipelineWorker {
    checkObject(options, "The options of work");
    checkNames(options, ["stages", "name"], "work");
    if (this.#stages.length === 0)
      throw invalid(`Pipeline "${this.name}" has no stages in this process: define them before work().`);
    const names = options.stages ?? this.#stages.map(({ name }) => name);
    if (!Array.isArray(names) || names.length === 0)
      throw invalid(`stages must be an array of names, at least one; got ${show(names)}.`);
    const stages = [...new Set(names)].map((name) => this.#stage(name));
    const defined = this.declare();
    // `ready` of the PipelineWorker rejects with the same error.
    defined.catch(() => {});
    const workers = stages.map((stage): [string, Worker] => [stage.name, this.#startStage(stage, options)]);
    return new PipelineWorker(new Map(workers), defined);
  }

  #startStage(stage: DefinedStage, { name }: PipelineWorkOptions): Worker {
    const work = resolveWork({ ...stage.work, name: stage.work.name ?? name });
    return this.#owner.startWorker([stage.queue], handlerOf(this.name, stage) as never, work);
  }
}

function isForbidden(error: unknown): error is DibsError {
  return isDibsError(error) && error.code === "FORBIDDEN";
}

function unlessForbidden(error: unknown): void {
  if (!isForbidden(error)) throw error;
}

refuseSurplus(Pipeline, "pipeline", {
  calls: {
    stage: "name, handler, options",
    join: "name, handler, options",
    queue: "stage",
    run: "id",
    work: "options",
  },
  promises: { add: "input, options", addMany: "inputs, options", runs: "options" },
});
