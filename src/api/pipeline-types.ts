import type { Each } from "../core/run/each.ts";
import type { Json } from "../core/input/json-type.ts";
import type { WorkOptions } from "../worker/options.ts";
import type { Task } from "../worker/task.ts";
import type { AddOptions } from "./add-options.ts";
import type { QueueOptions } from "./definition.ts";

/**
 * The types with which a pipeline (pipeline.ts) derives from its stages what each handler gets, and what a run returns.
 * Nothing in this file exists at run time.
 */

/** The policy of the stage's queue, and the options of its worker. */
export interface StageOptions<Data = unknown> extends Omit<JoinOptions, "cost"> {
  /**
   * The cost of its tasks in rate limits with a unit: a number, or a function of the input. The function runs in the
   * process that acks the previous stage, or begins the run.
   */
  cost?: number | ((input: Data) => number) | undefined;
}

/**
 * Options of a stage that joins. The store assembles its input, so its cost is a number, not a function of the input.
 */
export interface JoinOptions extends QueueOptions, Omit<WorkOptions, "order" | "limit"> {
  cost?: number | undefined;
}

/**
 * The options of a run are those of a task. Priority and headers are passed on in the run; the other options apply to
 * its first task.
 */
export type RunOptions = AddOptions;

export interface PipelineWorkOptions<Name extends string = string> {
  /** Default: all stages. */
  stages?: Name[] | undefined;
  /** A label for people, in the ledger and in lists. */
  name?: string | undefined;
}

/** Names of stages of the pipeline that are defined already. */
export type After<Stages> =
  | undefined
  | NameOf<Stages>
  | readonly [NameOf<Stages>, NameOf<Stages>, ...NameOf<Stages>[]];
type NameOf<Stages> = keyof Stages & string;

/** Which stages a stage follows, if not the one before it. */
export interface AfterOption<Order> {
  /**
   * The name of one stage: its result is the input. A list of at least two: the stage merges them, and its input is an
   * object with the result of each.
   */
  after?: Order | undefined;
}

/** A handler. The types of the next stage follow from what it returns. */
export type StageHandler<Data, Out> = (task: Task<Data>) => Promise<Out> | Out;

/** What the next stage gets from what this one returned. */
export type Passed<Out> = Out extends Each<infer Item> ? Item : Out;
export type IsParted<Out, Parted extends boolean> = [Extract<Out, Each>] extends [never] ? Parted : true;
type ResultOf<Data, Parted extends boolean> = Parted extends true ? Data[] : Data;

/** Input and output types of the stages, by name, and whether the run is in parts after them. */
export type StageTypes = Record<string, [data: unknown, out: unknown, parted: boolean]>;

/** What a stage passes on. */
type OutOf<Stages extends StageTypes, Name> = Name extends keyof Stages
  ? Json<Passed<Stages[Name][1]>>
  : never;
type PartedAfter<Stages extends StageTypes, Name> = Name extends keyof Stages
  ? true extends Stages[Name][2]
    ? true
    : false
  : false;

/** The input of a stage: of the one before it, of a named one, or of several. */
export type InputOf<Stages extends StageTypes, Order, Data> = Order extends string
  ? OutOf<Stages, Order>
  : Order extends readonly (infer Name extends string)[]
    ? { [Each in Name]: OutOf<Stages, Each> }
    : Data;
export type JoinedOf<Stages extends StageTypes, Order, Data> = Order extends string
  ? OutOf<Stages, Order>[]
  : Order extends readonly (infer Name extends string)[]
    ? { [Each in Name]: OutOf<Stages, Each>[] }
    : Data[];
export type PartedBefore<Stages extends StageTypes, Order, Parted extends boolean> = Order extends string
  ? PartedAfter<Stages, Order>
  : Order extends readonly (infer Name extends string)[]
    ? true extends PartedAfter<Stages, Name>
      ? true
      : false
    : Parted;

/** The stages without followers, after another one was added. */
export type EndsWith<Ends extends string, Order, Last extends string, Name extends string> =
  | Exclude<
      Ends,
      Order extends string ? Order : Order extends readonly (infer Each extends string)[] ? Each : Last
    >
  | Name;
/** A name that is only known at run time, for example built in a loop, says nothing to the types. */
export type IsKnown<Name extends string> = {} extends Record<Name, 1> ? false : true;
export type Adding<Stages extends StageTypes, Name extends string, Types extends StageTypes[string]> =
  IsKnown<Name> extends true ? Stages & Record<Name, Types> : Stages;
type IsUnion<T, Whole = T> = [T] extends [never]
  ? false
  : T extends T
    ? [Whole] extends [T]
      ? false
      : true
    : never;

/** The result of a run: that of its last stage; of several, an object with the result of each. */
export type RunResult<Data, Parted extends boolean, Stages extends StageTypes, Ends extends string> =
  IsUnion<Ends> extends true
    ? { [Name in Ends]: ResultOf<OutOf<Stages, Name>, PartedAfter<Stages, Name>> }
    : ResultOf<Data, Parted>;
