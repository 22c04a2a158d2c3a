/**
 * What a value of type `T` is when it comes back from the store: payloads, results and steps travel as JSON. A type that JSON
 * carries as it is stays itself, by name. A `Date`, or whatever has `toJSON`, becomes what that answers; what is refused when
 * it is stored, such as a `Map` or a function, is `never`.
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

/** Objects whose contents JSON does not see (core/json.ts). */
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

/** What may be stored as a payload: there is no JSON for undefined. A queue without data is one of `null`. */
export type Payload<T> = unknown extends T ? T : T & ({} | null);
