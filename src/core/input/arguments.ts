import { type DibsError, invalid } from "../errors/errors.ts";
import { show } from "../errors/show.ts";

/**
 * JavaScript ignores arguments that a function does not declare. The public classes and functions refuse them, as they
 * refuse unknown options: a caller that passes one expects it to do something.
 */

/** Method names, each with its parameters as text: "data, options". */
type Parameters = Record<string, string>;

/** For a function: `given` is its `arguments`, and `call` is its signature, such as "each(items)". */
export function checkCount(given: ArrayLike<unknown>, call: string): void {
  const most = countOf(call.slice(call.indexOf("(") + 1, -1));
  if (given.length > most) throw tooMany(call, most, given);
}

/**
 * For the public methods of a class, once it is defined. `of` names the instance in error messages, such as "queue". A
 * method in `calls` throws. A method in `promises` returns a rejected promise.
 */
export function refuseSurplus(
  held: { readonly prototype: object },
  of: string,
  { calls = {}, promises = {} }: { calls?: Parameters; promises?: Parameters },
): void {
  for (const [name, parameters] of Object.entries(calls)) guard(held.prototype, of, name, parameters, fail);
  for (const [name, parameters] of Object.entries(promises))
    guard(held.prototype, of, name, parameters, reject);
}

function fail(error: DibsError): never {
  throw error;
}

function reject(error: DibsError): Promise<never> {
  return Promise.reject(error);
}

type Method = (...given: unknown[]) => unknown;

function guard(
  prototype: object,
  of: string,
  name: string,
  parameters: string,
  refuse: (error: DibsError) => unknown,
): void {
  const method = (prototype as Record<string, Method>)[name]!;
  const most = countOf(parameters);
  const call = `${of}.${name}(${parameters})`;
  const guarded = function (this: unknown, ...given: unknown[]): unknown {
    return given.length > most ? refuse(tooMany(call, most, given)) : method.apply(this, given);
  };
  Object.defineProperty(guarded, "name", { value: name });
  Object.defineProperty(prototype, name, { value: guarded, writable: true, configurable: true });
}

function countOf(parameters: string): number {
  return parameters === "" ? 0 : parameters.split(",").length;
}

function tooMany(call: string, most: number, given: ArrayLike<unknown>): DibsError {
  const allowed = most === 0 ? "no arguments" : most === 1 ? "1 argument" : `at most ${most} arguments`;
  return invalid(`${call} takes ${allowed}; got ${given.length}, with ${show(given[most])} at the end.`);
}
