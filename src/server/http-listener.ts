import type { IncomingMessage, ServerResponse } from "node:http";
import { getRequestListener } from "@hono/node-server";
import type { Port } from "../core/port.ts";
import type { Env } from "../doors/http/define.ts";
import { createHttpDoor, respondProblem } from "../doors/http/door.ts";
import { HttpRefusal, problemOf } from "../doors/http/problem.ts";
import { NATIVE_DEFAULTS } from "../doors/native/door.ts";
import { bearerOf, type CallerRules, checkCaller } from "./callers.ts";
import { DashboardDoor } from "./dashboard-door.ts";
import type { AdminAction } from "./guard.ts";
import type { HttpAnswers } from "./http-answers.ts";
import type { ServerOptions } from "./options.ts";
import { pathOf } from "./path-of.ts";
import type { Grant } from "./scopes.ts";

export interface ListenerParts {
  options: ServerOptions & { readMs: number };
  /** The store, with calls counted. */
  store: Port;
  audit: (action: AdminAction) => void;
  callers: CallerRules;
  answers: HttpAnswers;
  /** Checks the token of a request. */
  admit: (request: IncomingMessage) => { port: Port; owner: string; grant: Grant };
  /** Whose request it is, as soon as that is known. */
  onOwner: (response: ServerResponse, owner: string) => void;
  draining: AbortSignal;
  closing: AbortSignal;
}

export type HttpListener = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

const OPEN_PATHS = new Set(["/openapi.json", "/docs"]);

/**
 * Answers the requests that are not probes: the HTTP interface and the dashboard's page. server.ts loads this file with
 * the first of them. Hono, zod, the shapes of all paths and Node's `Request` take 20 MB, and clients of the native
 * protocol need none of it.
 */
export function createListener(parts: ListenerParts): HttpListener {
  const { options, store, audit, callers, answers, admit, onOwner, draining, closing } = parts;
  const { logger, native, readMs } = options;
  const dashboard = new DashboardDoor({ ...options, store, audit });
  const door = createHttpDoor({
    maxBody: native?.maxFrame ?? NATIVE_DEFAULTS.maxFrame,
    readMs,
    onFailure: (error) => logger.error(`A request failed: ${(error as Error).message}`),
  });

  /** The description of the interface needs no token. */
  const answer = (
    request: Request,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
  ): Promise<Response> | Response => {
    const fetch = (
      port: Port,
      client: string,
      desk: Env["Bindings"]["desk"],
      caller = "",
    ): Promise<Response> | Response => {
      const reserve = answers.reserverFor(client, outgoing);
      return door.fetch(request, { port, desk, caller, draining, closing, reserve });
    };
    const path = pathOf(incoming);
    const token = bearerOf(incoming.headers);
    try {
      if (OPEN_PATHS.has(path) || dashboard.isOpen(path, token)) {
        checkCaller(incoming.headers, callers);
        return fetch(options.store, "", () => dashboard.strangerDesk());
      }
      if (dashboard.hasPage(request.method, path)) {
        checkCaller(incoming.headers, callers);
        return dashboard.page(request, path);
      }
      const { port, owner, grant } = admit(incoming);
      onOwner(outgoing, owner);
      const desk = () => dashboard.deskFor({ port, grant, token, owner });
      return fetch(port, `${owner}@${incoming.socket.remoteAddress}`, desk, owner);
    } catch (error) {
      return respondProblem(problemOf(error));
    }
  };

  return getRequestListener(
    (request, { incoming, outgoing }) =>
      answer(request, incoming as IncomingMessage, outgoing as ServerResponse),
    {
      overrideGlobalObjects: false,
      // A path or host from which no Request can be created.
      errorHandler: () => respondProblem(problemOf(new HttpRefusal(400, "The path or the host is invalid."))),
    },
  );
}
