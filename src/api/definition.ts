import type { StandardSchemaV1 } from "@standard-schema/spec";
import { checkCount } from "../core/input/arguments.ts";
import { invalid } from "../core/errors/errors.ts";
import { checkNames } from "../core/input/options.ts";
import { encodeJson } from "../core/input/json.ts";
import type { Json } from "../core/input/json-type.ts";
import { type NamedPolicy, parsePolicy, type QueuePolicyOptions } from "../core/queue/policy.ts";
import { checkQueueName } from "../core/queue/queue-name.ts";
import { show } from "../core/errors/show.ts";

/** A queue's policy, and validators for payloads and results. */
export interface QueueOptions extends QueuePolicyOptions {
  /** Any Standard Schema validator (zod, valibot, arktype…): bad data is refused at `add`. */
  schema?: StandardSchemaV1 | undefined;
  /** A validator for results: a handler that returns an invalid result has failed. */
  result?: StandardSchemaV1 | undefined;
}

/**
 * A queue's name, policy and types, shared by producers and workers. `In` is what is added, `Out` the result, and
 * `Data` what a handler gets, which the schema may have changed.
 */
export interface QueueDefinition<In = unknown, Out = unknown, Data = Json<In>> {
  readonly name: string;
  readonly options: QueueOptions;
  /** Only carries the types; it has no value. */
  readonly types?: { in: In; out: Out; data: Data };
}

type In<S> = S extends StandardSchemaV1 ? StandardSchemaV1.InferInput<S> : unknown;
type Out<S> = S extends StandardSchemaV1 ? StandardSchemaV1.InferOutput<S> : unknown;

export function defineQueue<const O extends QueueOptions & { schema: StandardSchemaV1 }>(
  name: string,
  options: O,
): QueueDefinition<In<O["schema"]>, Out<O["result"]>, Json<Out<O["schema"]>>>;
export function defineQueue<In = unknown, Out = unknown>(
  name: string,
  options?: QueueOptions,
): QueueDefinition<In, Out>;
export function defineQueue(name: string, options: QueueOptions = {}): QueueDefinition {
  checkCount(arguments, "defineQueue(name, options)");
  checkQueueName(name);
  splitOptions(options);
  return Object.freeze({ name, options });
}

/** Accepts only what `defineQueue` returned: a policy in another object with a name would be ignored. */
export function checkDefinition(definition: object): asserts definition is QueueDefinition {
  checkNames(definition, ["name", "options", "types"], "definition");
}

export interface SplitOptions {
  policy: NamedPolicy;
  encodeData: Encode;
  encodeResult: Encode;
  /** Without a validator, a handler may return nothing. */
  validatesResult: boolean;
}

/** Checks a value and returns it as JSON. Asynchronous only if the validator is. */
export type Encode = (value: unknown) => string | Promise<string>;

export function splitOptions(options: QueueOptions): SplitOptions {
  const { schema, result, ...policy } = options;
  return {
    policy: parsePolicy(policy),
    encodeData: encoder(schema, "schema", "data"),
    encodeResult: encoder(result, "result", "the result"),
    validatesResult: result !== undefined,
  };
}

function encoder(schema: StandardSchemaV1 | undefined, option: string, what: string): Encode {
  if (schema === undefined) return (value) => encodeJson(value, what);
  const validate = schema?.["~standard"]?.validate;
  if (typeof validate !== "function") {
    throw invalid(
      `${option} must be a Standard Schema validator, such as one of zod, valibot or arktype; got ${show(schema)}.`,
    );
  }
  return (value) => {
    const outcome = validate(value);
    return outcome instanceof Promise
      ? outcome.then((settled) => encodeJson(accepted(settled, what), what))
      : encodeJson(accepted(outcome, what), what);
  };
}

function accepted(outcome: StandardSchemaV1.Result<unknown>, what: string): unknown {
  if (!outcome.issues) return outcome.value;
  const issues = outcome.issues.slice(0, 5).map((issue) => {
    const path = (issue.path ?? [])
      .map((part) => (typeof part === "object" ? String(part.key) : String(part)))
      .join(".");
    return path ? `${path}: ${issue.message}` : issue.message;
  });
  throw invalid(`The schema refused ${what}: ${issues.join("; ")}.`);
}
