/** The token that the reader signed in with. It lives in this tab only: never in a cookie, which other pages could use. */

import { signal } from "@preact/signals";

const KEY = `dibs-token ${new URL(document.baseURI).pathname}`;

/** Null: nobody has signed in; the server may not ask for it. */
const token = signal<string | null>(sessionStorage.getItem(KEY));

/** Why the sign-in page is shown; null: it is not. */
export const signInReason = signal<string | null>(null);

export function tokenOf(): string | null {
  return token.value;
}

export function signIn(given: string): void {
  sessionStorage.setItem(KEY, given);
  token.value = given;
  signInReason.value = null;
}

export function signOut(reason: string): void {
  sessionStorage.removeItem(KEY);
  token.value = null;
  signInReason.value = reason;
}
