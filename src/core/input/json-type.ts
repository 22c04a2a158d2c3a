/**
 * The type that a value of type `T` has when it comes back from the store: payloads, results and steps are stored as
 * JSON. A type that JSON preserves keeps its name. A `Date`, or any type with `toJSON`, becomes the result of that
 * method. A type that is refused when it is stored, such as a `Map` or a function, becomes `never`.
 */
export type Json<T> = unknown extends T ? T : [T] extends [Carried<T>] ? T : Carried<T>;

type Carried<T> = unknown extends T
  ? T
  : T extends Plain | void
    ? T
    : T extends { toJSON(key?: never): infer Form }
      ? Carried<Form>
      : T extends Refused
        ? never
        : T extends object
          ? { [Key in keyof T]: Carried<T[Key]> }
          : never;

/**
 * Types that JSON preserves. They are recognised as a whole: the compiler would take a recursive type apart without end,
 * such as the usual `JsonValue`.
 */
type Plain = string | number | boolean | null | undefined | PlainArray | PlainObject;
interface PlainArray extends ReadonlyArray<Plain> {}
interface PlainObject {
  readonly [key: string]: Plain;
}

/** Objects whose contents JSON loses (core/input/json.ts). */
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
 * What may be stored as a payload: JSON has no undefined. For a queue without data use `null`. No value may be stored if a
 * part of the type is refused, such as a `Map`, a bigint or a class with methods.
 *
 * Inside a generic function `T` is not known. There the compiler ignores the first outcome because `any` never leads to
 * it, so `<T extends {}>(queue: Queue<T>, data: T) => queue.add(data)` compiles.
 */
export type Payload<T> = [Verdict<T>] extends ["refused"]
  ? T & JsonCannotCarry
  : unknown extends T
    ? T
    : T & ({} | null);

type Verdict<T> = [T] extends [Storable<T>] ? "accepted" : "refused";

/** No value has this type. Its name is part of the compiler's error. */
interface JsonCannotCarry {
  readonly [impossible]: never;
}
declare const impossible: unique symbol;

/** `T` without the parts that are refused when they are stored. Symbols as keys only distinguish types. */
type Storable<T> = unknown extends T
  ? T
  : T extends Plain | void
    ? T
    : T extends Refused
      ? never
      : T extends { toJSON(key?: never): unknown }
        ? T
        : T extends object
          ? { [Key in keyof T]: Key extends symbol ? T[Key] : Storable<T[Key]> }
          : never;
