/** Another transaction's commit made what was read untrue: the whole batch is carried out once more. */
export class Overtaken extends Error {
  override get name(): string {
    return "Overtaken";
  }
}
