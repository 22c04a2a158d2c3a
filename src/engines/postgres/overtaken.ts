/** Another transaction's commit made what was read untrue: the whole batch is carried out once more. */
export class Overtaken extends Error {
  override get name(): string {
    return "Overtaken";
  }
}

/** It has to be alone, and that shows only now: the batch is carried out once more, alone from its beginning. */
export class NotAlone extends Overtaken {
  override get name(): string {
    return "NotAlone";
  }
}
