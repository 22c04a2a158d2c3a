import type { StandardSchemaV1 } from "@standard-schema/spec";
import { checkCount } from "../core/input/arguments.ts";
import type { Json } from "../core/input/json-type.ts";
import { checkNames, checkObject } from "../core/input/options.ts";
import { checkTopic } from "../core/topic/topic.ts";
import { splitOptions } from "./definition.ts";

// `defineTopic()`: a topic's types and schema in a module that publishers and subscribers import.

export interface TopicOptions {
  /** Any Standard Schema validator (zod, valibot, arktype…): bad data is refused at `publish`. */
  schema?: StandardSchemaV1 | undefined;
}

/**
 * A topic's name and types, shared by publishers and subscribers. `In` is what is published, and `Data` what a handler
 * gets, which the schema may have changed.
 */
export interface TopicDefinition<In = unknown, Data = Json<In>> {
  readonly topic: string;
  readonly options: TopicOptions;
  /** Only carries the types; it has no value. */
  readonly types?: { in: In; data: Data };
}

export function defineTopic<const S extends StandardSchemaV1>(
  topic: string,
  options: { schema: S },
): TopicDefinition<StandardSchemaV1.InferInput<S>, Json<StandardSchemaV1.InferOutput<S>>>;
export function defineTopic<In = unknown>(topic: string, options?: TopicOptions): TopicDefinition<In>;
export function defineTopic(topic: string, options: TopicOptions = {}): TopicDefinition {
  checkCount(arguments, "defineTopic(topic, options)");
  checkTopic(topic);
  checkTopicOptions(options);
  return Object.freeze({ topic, options });
}

/** Accepts only what `defineTopic` returned. */
export function checkTopicDefinition(definition: object): asserts definition is TopicDefinition {
  checkNames(definition, ["topic", "options", "types"], "definition");
}

export function checkTopicOptions(options: TopicOptions): void {
  checkObject(options, "The options of a topic");
  checkNames(options, ["schema"], "topic");
  splitOptions(options);
}
