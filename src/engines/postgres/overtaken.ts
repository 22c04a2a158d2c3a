/** Another transaction's commit made what was read untrue: the whole batch is carried out once more. */
export class Overtaken extends Error {
  override get name(): string {
    return "Overtaken";
  }
}

/** It has others' notes in its hands, which nobody else sees meanwhile, and would have to wait for somebody's lock. */
export class HeldUp extends Error {
  override get name(): string {
    return "HeldUp";
  }
}

/** It has to be alone, and somebody's transaction has been open for long: it gives way, and asks again later. */
export class Crowded extends Error {
  override get name(): string {
    return "Crowded";
  }
}
