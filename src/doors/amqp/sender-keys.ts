import { AmqpError } from "./wire/errors.ts";
import { fieldOf, type Table, typeName } from "./wire/table.ts";

/** The additional routing keys of the sender. */
export function keysIn(headers: Table, name: string): string[] {
  const field = fieldOf(headers, name);
  if (field === undefined) return [];
  if (field.type !== "A")
    throw new AmqpError(
      "PRECONDITION_FAILED",
      `invalid message: {unacceptable_type_in_header,"${name}",${typeName(field)}}`,
    );
  return field.value.flatMap((each) => (each.type === "S" ? [each.value.toString()] : []));
}
