// First: see the comment in supported-node.ts.
import "../core/process/supported-node.ts";
import type { Dibs } from "../api/dibs.ts";
import { DibsError, invalid } from "../core/errors/errors.ts";
import { SILENT } from "../core/process/logger.ts";
import { checkNames, checkObject } from "../core/input/options.ts";
import { show } from "../core/errors/show.ts";
import { Dashboard } from "../dashboard/dashboard.ts";
import { createHttpDoor, respondProblem } from "../doors/http/door.ts";
import { HttpRefusal, NotFound, problemOf, UnknownToken } from "../doors/http/problem.ts";
import { deskFor } from "./desks.ts";
import { type AdminAction, guardPort } from "./guard.ts";
import { EVERYTHING, Grant, parseScope, type Scope } from "./scopes.ts";
import { VERSION } from "../core/process/package-version.ts";
import { webLoader } from "./web-folder.ts";

export type { AdminAction } from "./guard.ts";

export interface DashboardOptions {
  /** Where the handler is mounted, such as "/admin/queues"; default "/". */
  prefix?: string | undefined;
  /**
   * Called for every request, also for the page's files: who asks, and what they may do. False or null: the answer is
   * 401. True: everything. A live stream calls it again every few seconds, and ends when it refuses.
   */
  authorize: (request: Request) => Authorized | Promise<Authorized>;
  /** True: the dashboard shows the store, and changes are refused. */
  readOnly?: boolean | undefined;
  /** Called for every change, with who made it. */
  onAction?: ((action: AdminAction) => void) | undefined;
}

export type Authorized =
  | boolean
  | null
  | undefined
  | {
      /** For the audit list. */
      name: string;
      readOnly?: boolean | undefined;
      /** `read:shop.*`, `admin:*` and so on; everything unless set. */
      scopes?: readonly string[] | undefined;
    };

/** A fetch handler: Hono, Next and others mount it as it is; for Node's http, use `@hono/node-server`. */
export interface DashboardHandler {
  (request: Request): Promise<Response>;
  /** Ends live streams and bulk jobs, and writes the history. Call it before `dibs.close()`. */
  close(): Promise<void>;
}

const NAMES = ["prefix", "authorize", "readOnly", "onAction"];
const READ_ONLY: readonly Scope[] = ["read:*"];
/** How often a stream asks again whether its caller may see it. */
const AUTHORIZE_MS = 5_000;
const LARGEST_BODY = 32 * 1024 * 1024;
const READ_MS = 30_000;
/** Answers are bounded one by one; the app that mounts the handler bounds its connections. */
const NO_ROOM = { resize: () => {}, giveBack: () => {} };

/** The dashboard of an open store, for your own app: the page, and the HTTP interface that it uses. */
export function dashboard(dibs: Dibs, options: DashboardOptions): DashboardHandler {
  const { authorize, prefix, readOnly, onAction } = check(options);
  const store = dibs.port;
  const board = new Dashboard({
    ...{ store, logger: SILENT, version: VERSION, storeName: null, engine: null },
  });
  const audit = (action: AdminAction): void => {
    board.audit.add({ at: Math.floor(store.clock.read().wall), ...action });
    onAction?.(action);
  };
  const closing = new AbortController();
  const door = createHttpDoor({ maxBody: LARGEST_BODY, readMs: READ_MS, onFailure: () => {} });
  const web = webLoader();

  const grantFor = async (request: Request): Promise<Grant> => {
    const authorized = await authorize(request);
    if (authorized === false || authorized === null || authorized === undefined)
      throw new UnknownToken("This app does not let you see its queues. Sign in to it first.");
    const { name, readOnly: isReader = false, scopes } = authorized === true ? EVERYBODY : authorized;
    const given = scopes ? scopes.map(parseScope) : EVERYTHING;
    return new Grant(name, readOnly === true || isReader ? readingOnly(given) : given, authorized !== true);
  };

  const handle = async (request: Request): Promise<Response> => {
    const url = new URL(request.url);
    const path = below(prefix, url.pathname);
    if (path === undefined) throw new NotFound(request.method, url.pathname);
    // The page's own URLs are relative to the prefix, with its slash at the end.
    if (path === "" && !url.pathname.endsWith("/")) return redirect(`${prefix}${url.search}`);
    const grant = await grantFor(request);
    if (!path.startsWith("v1/")) return page(request, path);
    refuseForeign(request);
    const port = guardPort(store, grant, audit);
    const stillWelcome = watcher(() => grantFor(request), closing.signal);
    const desk = () =>
      deskFor(board, store, audit, { port, grant, token: undefined, isWelcome: stillWelcome });
    const inner = new Request(new URL(`/${path}${url.search}`, url), request);
    const stops = { draining: closing.signal, closing: closing.signal };
    return door.fetch(inner, { port, desk, caller: grant.name, ...stops, reserve: async () => NO_ROOM });
  };

  const page = async (request: Request, path: string): Promise<Response> => {
    if (request.method !== "GET" && request.method !== "HEAD")
      throw new HttpRefusal(405, `The page is read with GET, not with ${request.method}.`);
    const found = (await web())?.respond(request, path, prefix);
    if (found) return found;
    throw new NotFound(request.method, path);
  };

  const handler = async (request: Request): Promise<Response> => {
    try {
      return await handle(request);
    } catch (error) {
      return respondProblem(problemOf(error));
    }
  };
  const close = async (): Promise<void> => {
    closing.abort(new DibsError("UNAVAILABLE", "The dashboard was closed."));
    await board.stop();
  };
  return Object.assign(handler, { close });
}

const EVERYBODY = { name: "everybody", readOnly: false, scopes: undefined };

function readingOnly(scopes: readonly Scope[]): readonly Scope[] {
  if (scopes === EVERYTHING) return READ_ONLY;
  return scopes
    .filter((scope) => /^(?:read|admin):/.test(scope))
    .map((scope) => scope.replace(/^admin:/, "read:") as Scope);
}

/** The path below the prefix, without a slash at its start; undefined: it is elsewhere. */
function below(prefix: string, pathname: string): string | undefined {
  if (`${pathname}/` === prefix) return "";
  return pathname.startsWith(prefix) ? pathname.slice(prefix.length) : undefined;
}

function redirect(location: string): Response {
  return new Response(null, { status: 308, headers: { location } });
}

/**
 * A page of another origin must not act with the cookies of the app. Browsers say where a request comes from; programs
 * say nothing.
 */
function refuseForeign({ headers, url }: Request): void {
  const site = headers.get("sec-fetch-site");
  const origin = headers.get("origin");
  const isForeign =
    site === null
      ? origin !== null && new URL(origin).host !== (headers.get("host") ?? new URL(url).host)
      : site !== "same-origin" && site !== "none";
  if (isForeign) throw new DibsError("FORBIDDEN", "Pages of another origin may not call this dashboard.");
}

/** Whether the caller was welcome when it was last asked, at most some seconds ago. Asked only while it is used. */
function watcher(ask: () => Promise<unknown>, closing: AbortSignal): () => boolean {
  let askedAt = performance.now();
  let isWelcome = true;
  return () => {
    if (performance.now() - askedAt > AUTHORIZE_MS) {
      askedAt = performance.now();
      ask().catch(() => (isWelcome = false));
    }
    return isWelcome && !closing.aborted;
  };
}

function check(options: DashboardOptions): DashboardOptions & { prefix: string } {
  checkObject(options, "The options of dashboard");
  checkNames(options, NAMES, "dashboard");
  const { authorize, prefix = "/" } = options;
  if (typeof authorize !== "function")
    throw invalid(
      "dashboard() needs authorize: (request) => …, which says who may see it. `authorize: () => true` lets everybody do everything.",
    );
  if (typeof prefix !== "string" || !/^\/(?:[A-Za-z0-9._~-]+\/?)*$/.test(prefix))
    throw invalid(`prefix must be a path such as "/admin/queues"; got ${show(prefix)}.`);
  return { ...options, prefix: prefix.endsWith("/") ? prefix : `${prefix}/` };
}
