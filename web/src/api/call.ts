/** One request to the server. Addresses are relative to where the page is mounted; the token travels in a header. */

import { tokenOf, signOut } from "./session.ts";

export class ApiError extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const UNREACHABLE = "The server does not answer. The page tries again by itself.";

export interface CallOptions {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  body?: unknown;
  query?: Record<string, string | number | null | undefined>;
  signal?: AbortSignal;
  /** Instead of the one that the reader signed in with. */
  token?: string;
}

export async function call<T>(path: string, options: CallOptions = {}): Promise<T> {
  const response = await send(path, options);
  const text = await response.text();
  return (text === "" ? undefined : JSON.parse(text)) as T;
}

/** For streams: the answer as it comes, already known to be a success. */
export async function send(
  path: string,
  { method, body, query, signal, token: given }: CallOptions = {},
): Promise<Response> {
  const address = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(query ?? {}))
    if (value != null && value !== "") address.searchParams.set(name, String(value));
  const token = given ?? tokenOf();
  const headers: Record<string, string> = {
    ...(token !== null && { authorization: `Bearer ${token}` }),
    ...(body !== undefined && { "content-type": "application/json" }),
  };
  let response: Response;
  try {
    response = await fetch(address, {
      method: method ?? (body === undefined ? "GET" : "POST"),
      headers,
      // No cookie is ever used, so none is sent either.
      credentials: "omit",
      cache: "no-store",
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "UNAVAILABLE", UNREACHABLE);
  }
  if (response.ok) return response;
  const problem = (await response.json().catch(() => ({}))) as { code?: string; detail?: string };
  if (response.status === 401 && given === undefined)
    signOut(problem.detail ?? "The server asks for a token.");
  throw new ApiError(
    response.status,
    problem.code ?? "UNAVAILABLE",
    problem.detail ?? `The server answered ${response.status}. Its log says more.`,
  );
}

/** What to show of anything that was thrown. */
export function inWords(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
