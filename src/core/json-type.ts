/**
 * The type that a value of type `T` has when it comes back from the store: payloads, results and steps are stored as
 * JSON. A type that JSON preserves keeps its name. A `Date`, or any type with `toJSON`, becomes the result of that
 * method. A type that is refused when it is stored, such as a `Map` or a function, becomes `never`.
 */
export type Json<T> = unknown extends T ? T : [T] extends [Carried<T>] ? T : Carried<T>;

type Carried<T> = unknown extends T
  ? T
  : T extends string | number | boolean | null | undefined | void
    ? T
    : T extends { toJSON(key?: never): infer Form }
      ? Carried<Form>
      : T extends Refused
        ? never
        : T extends object
          ? { [Key in keyof T]: Carried<T[Key]> }
          : never;

/** Objects whose contents JSON loses (core/json.ts). */
type Refused =
  | ((...given: never[]) => unknown)
  | ReadonlyMap<unknown, unknown>
  | ReadonlySet<unknown>
  | WeakMap<WeakKey, unknown>
  | WeakSet<WeakKey>
  | Promise<unknown>
  | RegExp
  | Error
  | ArrayBuffer
  | ArrayBufferView;

/**
 * What may be stored as a payload: JSON has no undefined. For a queue without data use `null`. A `Map`, a class or a
 * bigint compiles and is refused when it is stored. A type that excludes them depends on a condition on `T`, and inside a
 * generic function the compiler accepts a `T` only where both outcomes of the condition accept it: code such as
 * `<T extends {}>(queue: Queue<T>, data: T) => queue.add(data)` would not compile.
 */
export type Payload<T> = unknown extends T ? T : T & ({} | null);
