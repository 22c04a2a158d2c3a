import { MOST_ATTEMPTS, type NamedPolicy, UNLIMITED_ATTEMPTS } from "../../core/queue/policy.ts";
import { checkSameArgument } from "./equivalence.ts";
import { DEAD_LETTERS } from "./names.ts";
import { AmqpError } from "./wire/errors.ts";
import { type Field, fieldOf, numberOf, type Table, textOf, typeName } from "./wire/table.ts";

/** The arguments of queue.declare: checked, compared with those of an earlier declaration, and turned into a policy. */
export interface QueueSettings {
  messageTtl?: number;
  expires?: number;
  maxLength?: number;
  maxLengthBytes?: number;
  overflow?: string;
  deadLetterExchange?: string;
  deadLetterRoutingKey?: string;
  maxPriority?: number;
  singleActiveConsumer?: boolean;
  type?: string;
  deliveryLimit?: number;
  consumerTimeout?: number;
  mode?: string;
}

type Kind = "number" | "text" | "boolean";

/** In RabbitMQ's order: of several arguments that differ, its error names the first. */
const KNOWN = {
  "x-expires": ["expires", "number"],
  "x-message-ttl": ["messageTtl", "number"],
  "x-dead-letter-exchange": ["deadLetterExchange", "text"],
  "x-dead-letter-routing-key": ["deadLetterRoutingKey", "text"],
  "x-max-length": ["maxLength", "number"],
  "x-max-length-bytes": ["maxLengthBytes", "number"],
  "x-max-priority": ["maxPriority", "number"],
  "x-overflow": ["overflow", "text"],
  "x-queue-mode": ["mode", "text"],
  "x-single-active-consumer": ["singleActiveConsumer", "boolean"],
  "x-queue-type": ["type", "text"],
  "x-delivery-limit": ["deliveryLimit", "number"],
  "x-consumer-timeout": ["consumerTimeout", "number"],
} as const satisfies Record<string, readonly [keyof QueueSettings, Kind]>;

/** A message of this size fits: RabbitMQ's own limit is 128 MiB, and larger ones belong elsewhere. */
export const LARGEST_BODY = 16 * 1024 * 1024;
export const CONSUMER_TIMEOUT_MS = 30 * 60_000;
const OVERFLOWS = new Set(["drop-head", "reject-publish", "reject-publish-dlx"]);
const TYPES = new Set(["classic", "quorum"]);
/** Both have the same effect here: messages are on disk in either. */
const MODES = new Set(["default", "lazy"]);

/** The flags of a declaration. */
interface Flags {
  durable: boolean;
  exclusive: boolean;
  autoDelete: boolean;
}

export function readArguments(table: Table, where: string, flags: Flags): QueueSettings {
  const settings: Record<string, unknown> = {};
  for (const [name, [setting, kind]] of Object.entries(KNOWN)) {
    const field = fieldOf(table, name);
    if (field === undefined) continue;
    if (name.startsWith("x-dead-letter-") && field.type !== "S")
      throw new AmqpError(
        "PRECONDITION_FAILED",
        `invalid type '${typeName(field)}' for arg '${name}' in ${where}`,
      );
    // RabbitMQ takes a negative limit for none.
    if (name === "x-delivery-limit" && (numberOf(field) ?? 0) < 0) continue;
    settings[setting] = read(field, kind, (problem) => {
      throw new AmqpError("PRECONDITION_FAILED", `invalid arg '${name}' for ${where}: ${problem}`);
    });
  }
  const found = settings as QueueSettings;
  check(found, where);
  checkType(found, where, flags);
  return found;
}

function read(field: Field, kind: Kind, refuse: (problem: string) => never): unknown {
  const value =
    kind === "number"
      ? numberOf(field)
      : kind === "text"
        ? textOf(field)
        : field.type === "t"
          ? field.value
          : undefined;
  if (kind === "number" && (value === undefined || field.type === "f" || field.type === "d"))
    return refuse(`"expected integer, got ${typeName(field)}"`);
  if (value === undefined) return refuse(`{unacceptable_type,${typeName(field)}}`);
  if (typeof value === "number" && value < 0) return refuse(`{value_negative,${value}}`);
  return value;
}

/** A quorum queue has its own rules, as has a classic one. */
function checkType(settings: QueueSettings, where: string, { durable, exclusive, autoDelete }: Flags): void {
  const { type = "classic", maxPriority, deliveryLimit } = settings;
  const refuse = (problem: string): never => {
    throw new AmqpError("PRECONDITION_FAILED", problem);
  };
  if (type === "classic") {
    if (deliveryLimit !== undefined)
      refuse(`invalid arg 'x-delivery-limit' for ${where} of queue type rabbit_classic_queue`);
    return;
  }
  if (!durable) refuse(`invalid property 'non-durable' for ${where}`);
  if (autoDelete) refuse(`invalid property 'auto-delete' for ${where}`);
  if (exclusive) refuse(`invalid property 'exclusive-owner' for ${where}`);
  if (maxPriority !== undefined)
    refuse(`invalid arg 'x-max-priority' for ${where} of queue type rabbit_quorum_queue`);
}

function check(settings: QueueSettings, where: string): void {
  const { expires, overflow, type, mode, maxPriority, deadLetterRoutingKey, deadLetterExchange } = settings;
  const refuse = (name: string, problem: string): never => {
    throw new AmqpError("PRECONDITION_FAILED", `invalid arg '${name}' for ${where}: ${problem}`);
  };
  if (expires === 0) refuse("x-expires", "{value_zero,0}");
  if (overflow !== undefined && !OVERFLOWS.has(overflow)) refuse("x-overflow", "invalid_overflow");
  if (type !== undefined && !TYPES.has(type)) refuse("x-queue-type", `"unsupported queue type '${type}'"`);
  if (mode !== undefined && !MODES.has(mode)) refuse("x-queue-mode", `"unsupported queue mode '${mode}'"`);
  if (maxPriority !== undefined && maxPriority > 255)
    refuse("x-max-priority", `{max_value_exceeded,${maxPriority}}`);
  if (deadLetterRoutingKey !== undefined && deadLetterExchange === undefined)
    refuse("x-dead-letter-routing-key", "routing_key_but_no_dlx_defined");
}

/** Refuses arguments that differ from those of the first declaration. Unknown ones are not compared. */
export function checkSame(before: Table, now: Table, where: string): void {
  for (const name of Object.keys(KNOWN))
    checkSameArgument(name, compared(before, name), compared(now, name), where);
}

/** A classic queue need not be called one. */
function compared(table: Table, name: string): Field | undefined {
  const field = fieldOf(table, name);
  return name === "x-queue-type" && textOf(field) === "classic" ? undefined : field;
}

/**
 * The policy of a queue that AMQP creates: a returned message goes back to its position at once, without a limit of
 * attempts unless the queue has one.
 */
export function policyOf(settings: QueueSettings): NamedPolicy {
  const {
    messageTtl,
    maxLength,
    maxLengthBytes,
    deliveryLimit,
    deadLetterExchange,
    overflow = "drop-head",
    consumerTimeout = CONSUMER_TIMEOUT_MS,
  } = settings;
  return {
    maxPayload: LARGEST_BODY,
    timeout: Math.max(consumerTimeout, 1_000),
    maxAttempts:
      deliveryLimit === undefined ? UNLIMITED_ATTEMPTS : Math.min(deliveryLimit + 1, MOST_ATTEMPTS),
    elsewhere: 0,
    backoff: { type: "fixed", delay: 0, max: 0, jitter: 0 },
    ...(messageTtl !== undefined && messageTtl > 0 && { ttl: messageTtl }),
    ...(maxLength !== undefined && { maxDepth: maxLength }),
    ...(maxLengthBytes !== undefined && { maxBytes: maxLengthBytes }),
    ...(overflow === "drop-head" && { overflow: "drop-oldest" }),
    ...(deadLetterExchange !== undefined && { expiredTo: DEAD_LETTERS }),
  };
}
