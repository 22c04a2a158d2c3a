/** Whoever awaits it learns of its failure; whoever does not is not ended by it. */
export function suppressUnhandled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}
