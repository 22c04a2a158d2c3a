/**
 * Returns the promise and prevents an unhandled rejection: a caller that awaits it still gets the failure, and one that
 * does not await it does not crash the process.
 */
export function suppressUnhandled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}
