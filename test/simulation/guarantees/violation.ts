/** A guarantee that did not hold. */
export class Violation extends Error {
  override get name(): string {
    return "Violation";
  }
}

export function check(holds: boolean, message: string | (() => string)): asserts holds {
  if (!holds) throw new Violation(typeof message === "string" ? message : message());
}
