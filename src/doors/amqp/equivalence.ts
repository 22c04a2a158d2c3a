import { AmqpError } from "./wire/errors.ts";
import { canonical, type Field, shownValue, typeName } from "./wire/table.ts";

/** A second declaration must say what the first one said. These refuse it in RabbitMQ's words, for queues and exchanges. */

export function checkSameArgument(
  name: string,
  before: Field | undefined,
  now: Field | undefined,
  where: string,
): void {
  if ((before && canonical(before)) === (now && canonical(now))) return;
  if (before && now) refuseDifference(name, `'${shownValue(now)}'`, `'${shownValue(before)}'`, where);
  refuseDifference(name, shown(now), shown(before), where);
}

export function refuseDifference(name: string, received: string, current: string, where: string): never {
  throw new AmqpError(
    "PRECONDITION_FAILED",
    `inequivalent arg '${name}' for ${where}: received ${received} but current is ${current}`,
  );
}

function shown(field: Field | undefined): string {
  return field ? `the value '${shownValue(field)}' of type '${typeName(field)}'` : "none";
}
