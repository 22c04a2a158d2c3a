import {
  createServer,
  type IncomingMessage,
  type Server as HttpServer,
  type ServerResponse,
} from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { getRequestListener } from "@hono/node-server";
import { AnswerBudget } from "../core/answer-budget.ts";
import { type Clock, startTimer } from "../core/clock.ts";
import type { Measured } from "../core/commit.ts";
import { DibsError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { Port } from "../core/port.ts";
import { show } from "../core/show.ts";
import { isStoreFault } from "../core/store-fault.ts";
import { createHttpDoor, type HttpDoor, respondProblem } from "../doors/http/door.ts";
import { type Admitted, NATIVE_DEFAULTS, NativeDoor, type NativeOptions } from "../doors/native/door.ts";
import { PATH } from "../protocol/messages.ts";
import type { Access } from "./access.ts";
import { checkAddress, listenAt } from "./address.ts";
import { boundEntry } from "./audit.ts";
import { bearerOf, type CallerRules, checkCaller, rulesOf, shareWithOrigin } from "./callers.ts";
import { Connections } from "./connections.ts";
import { type AdminAction, guardPort } from "./guard.ts";
import { HttpAnswers } from "./http-answers.ts";
import { Metrics } from "./metrics.ts";
import { cutSlowReader, refuse, send, sendProblem } from "./send.ts";
import type { Grant } from "./scopes.ts";
import { throttleLogger } from "./throttled-logger.ts";
import { withoutRepeats } from "./trail.ts";
import { HttpRefusal, NotFound, problemOf } from "../doors/http/problem.ts";

export interface ServerOptions {
  store: Port;
  access: Access;
  host: string;
  /** 0: any that is free. */
  port: number;
  /** Somebody said in words that everybody who reaches the address may do everything. */
  letAnyoneIn: boolean;
  allowHosts?: readonly string[];
  allowOrigins?: readonly string[];
  maxConnections?: number;
  tls?: { cert: Buffer; key: Buffer } | undefined;
  clock: Clock;
  logger: Logger;
  audit?: (action: AdminAction) => void;
  /** Takes who wants to be told of the store's commits. */
  onMeasured?: (listener: (measured: Measured) => void) => void;
  /** A client that sends no whole head of a request in this time is cut off; in milliseconds, as the others. */
  headersMs?: number;
  /** A client that sends no whole request in this time is cut off. */
  requestMs?: number;
  /** A client that has not read its answer by then is cut off. */
  readMs?: number;
  /** A connection that was ended is destroyed when its client has not ended it too by then. */
  farewellMs?: number;
  native?: Omit<NativeOptions, "clock" | "logger">;
}

const DEFAULT_CONNECTIONS = 20_000;
/** Who is slower than this with a request is cut off. */
const HEADERS_MS = 10_000;
const REQUEST_MS = 60_000;
const READ_MS = 30_000;
const FAREWELL_MS = 2_000;
/** Longer than proxies keep a connection, mostly 60 s: whoever closes it while the other sends loses a request. */
const KEEP_ALIVE_MS = 75_000;
/** Who asked in this time may be about to ask again over the same connection. */
const LINGER_MS = 500;
/** What is left to requests that are being answered when the server closes. */
const LAST_ANSWERS_MS = 2_000;
const HEADER_BYTES = 16 * 1024;
/** How soon a token that was revoked ends the connections it opened. */
const LOOK_EVERY_MS = 1_000;
/** A store that does not answer a small question in this time is not ready. */
const READY_MS = 2_000;
const OPEN_PATHS = new Set(["/openapi.json", "/docs"]);
/** Answered here and not by a door. */
const OWN_PATHS = new Set(["/healthz", "/readyz", "/metrics"]);
const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/**
 * One process that any language can talk to: an address, who may come in by it, and the doors behind.
 *
 *   listening ──drain()──▶ not ready, hands out nothing ──close()──▶ closed
 */
export class Server {
  readonly #options: ServerOptions;
  readonly #http: HttpServer;
  readonly #connections: Connections;
  readonly #native: NativeDoor;
  readonly #door: HttpDoor;
  readonly #listener: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  readonly #callers: CallerRules;
  readonly #audit: (action: AdminAction) => void;
  readonly #metrics: Metrics;
  readonly #httpAnswers: HttpAnswers;
  /** The store, with what goes through here counted. */
  readonly #store: Port;
  /** Requests that are being answered, and by whose leave. */
  readonly #underWay = new Map<ServerResponse, string | undefined>();
  readonly #draining = new AbortController();
  readonly #closing = new AbortController();
  /** What was last wrong with the tokens. */
  #trouble = "";
  #askedAt = Number.NEGATIVE_INFINITY;
  #stopLooking: () => void = () => {};

  private constructor(options: ServerOptions) {
    const logger = throttleLogger(options.logger);
    this.#options = { ...options, logger };
    const { clock, host, allowHosts = [], allowOrigins = [] } = options;
    const trail = withoutRepeats(options.audit ?? (() => {}));
    this.#audit = (action) => trail(boundEntry(action));
    this.#callers = rulesOf(host, allowHosts, allowOrigins);
    this.#metrics = new Metrics(options.store);
    this.#store = this.#metrics.measure(options.store);
    options.onMeasured?.((measured) => this.#metrics.note(measured));
    const { headersMs = HEADERS_MS, requestMs = REQUEST_MS } = options;
    const { readMs = READ_MS, farewellMs = FAREWELL_MS } = options;
    this.#door = createHttpDoor({
      maxBody: options.native?.maxFrame ?? NATIVE_DEFAULTS.maxFrame,
      readMs,
      onFailure: (error) => logger.error(`A request failed: ${(error as Error).message}`),
    });
    this.#listener = getRequestListener(
      (request, { incoming, outgoing }) =>
        this.#fetch(request, incoming as IncomingMessage, outgoing as ServerResponse),
      {
        overrideGlobalObjects: false,
        // An address or a host of which no request can be made.
        errorHandler: () => respondProblem(problemOf(new HttpRefusal(400, "The path or the host is none."))),
      },
    );
    const budget = new AnswerBudget();
    this.#httpAnswers = new HttpAnswers(budget);
    this.#native = new NativeDoor({ ...options.native, clock, logger, budget });
    const limits = {
      ...{ headersTimeout: headersMs, requestTimeout: requestMs, maxHeaderSize: HEADER_BYTES },
      connectionsCheckingInterval: Math.min(LOOK_EVERY_MS, headersMs),
      keepAliveTimeout: KEEP_ALIVE_MS,
    };
    this.#http = options.tls
      ? createSecureServer({ ...limits, ...options.tls, handshakeTimeout: headersMs })
      : createServer(limits);
    const { maxConnections: max = DEFAULT_CONNECTIONS } = options;
    this.#connections = new Connections(this.#http, { max, readMs, farewellMs });
    this.#http.on("request", (request, response) => {
      cutSlowReader(response, readMs);
      this.#follow(response);
      this.#answer(request, response).catch((error: unknown) => this.#cut(response, error));
    });
    this.#http.on("checkExpectation", (_, response) => {
      sendProblem(response, new HttpRefusal(417, "Expect is 100-continue, or left out."));
    });
    this.#http.on("clientError", (error, socket) => {
      const refusal = refusalOf(error);
      if (refusal) refuse(socket, problemOf(refusal));
      else socket.destroy();
    });
    this.#http.on("upgrade", (request, socket, head) => this.#upgrade(request, socket, head));
  }

  static async start(options: ServerOptions): Promise<Server> {
    checkAddress(options);
    const server = new Server(options);
    // What there is by now is no news.
    options.access.changes();
    await listenAt(server.#http, options, (error) =>
      server.#options.logger.error(`The server's socket failed: ${error.message}`),
    );
    server.#lookAtTokens();
    return server;
  }

  /** Where it listens, as clients write it. */
  get url(): string {
    const { address, port, family } = this.#http.address() as AddressInfo;
    const host = family === "IPv6" ? `[${address}]` : address;
    return `${this.#options.tls ? "https" : "http"}://${host}:${port}`;
  }

  get clients(): number {
    return this.#native.clients;
  }

  /** Open TCP connections, of any kind. */
  get connections(): number {
    return this.#connections.count;
  }

  /** Says that it is not ready, hands out nothing more, and gives clients `ms` to finish what they hold. */
  async drain(ms: number): Promise<void> {
    this.#handOutNoMore();
    await this.#native.drain(ms);
    // With its next answer it is told that the connection ends. Closed before, it would not know whether it was heard.
    if (performance.now() - this.#askedAt < LINGER_MS)
      await new Promise<void>((resolve) => this.#options.clock.after(LINGER_MS, resolve));
  }

  /** What is being answered is; whoever waits for something else is told that nothing comes of it here. */
  async close(): Promise<void> {
    this.#handOutNoMore();
    this.#closing.abort(new DibsError("UNAVAILABLE", "This server is being stopped. Try again soon."));
    this.#stopLooking();
    this.#native.close();
    const closed = new Promise<void>((resolve) => this.#http.close(() => resolve()));
    const stopTimer = startTimer(LAST_ANSWERS_MS, () => this.#connections.destroyAll());
    await closed;
    stopTimer();
    this.#connections.close();
  }

  get #isReady(): boolean {
    return !this.#draining.signal.aborted;
  }

  /** And nobody stays connected for another request. */
  #handOutNoMore(): void {
    const reason = "This server is being stopped and hands out no more tasks. Try again soon.";
    this.#draining.abort(new DibsError("UNAVAILABLE", reason));
    for (const response of this.#underWay.keys()) response.shouldKeepAlive = false;
  }

  /** Until it is answered. */
  #follow(response: ServerResponse): void {
    this.#askedAt = performance.now();
    if (!this.#isReady) response.shouldKeepAlive = false;
    this.#underWay.set(response, undefined);
    const served = this.#connections.serve(response.req.socket);
    response.once("close", () => {
      this.#underWay.delete(response);
      served();
    });
  }

  /** A token that was revoked lets nobody stay. */
  #lookAtTokens(): void {
    this.#stopLooking = this.#options.clock.after(LOOK_EVERY_MS, () => {
      try {
        this.#auditTokens();
        this.#dismiss();
        this.#trouble = "";
      } catch (error) {
        const { message } = error as Error;
        // Once, and not with every look.
        if (message !== this.#trouble) this.#options.logger.error(message);
        this.#trouble = message;
      }
      this.#lookAtTokens();
    });
  }

  /** They are made and revoked beside the server, which is told by their file. */
  #auditTokens(): void {
    for (const { verb, name } of this.#options.access.changes())
      this.#audit({ by: "dibs tokens", verb, token: name });
  }

  /** Many have the same owner: each is asked about once. */
  #dismiss(): void {
    const { access } = this.#options;
    const known = new Map<string, boolean>();
    const isDismissed = (owner: string): boolean => {
      if (!known.has(owner)) known.set(owner, !access.isWelcome(owner));
      return known.get(owner)!;
    };
    this.#native.dismiss(isDismissed);
    for (const [response, owner] of this.#underWay)
      if (owner !== undefined && isDismissed(owner)) response.destroy();
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on("error", () => socket.destroy());
    this.#connections.serve(request.socket);
    try {
      if (pathOf(request) !== PATH) throw notFound(request);
      this.#native.accept(request, socket, head, this.#admit(request));
    } catch (error) {
      refuse(socket, problemOf(error));
    }
  }

  #admit({ headers }: IncomingMessage): Admitted & { grant: Grant } {
    const { access } = this.#options;
    checkCaller(headers, this.#callers);
    const { owner, grant } = access.enter(bearerOf(headers));
    const ticketOf = (session: number): string => access.ticketOf(owner, session);
    return { port: guardPort(this.#store, grant, this.#audit), grant, owner, ticketOf };
  }

  /** The last resort for an exception that nobody expected: it ends this connection, never the process. */
  #cut(response: ServerResponse, error: unknown): void {
    const reason = error instanceof Error ? error.message : show(error);
    this.#options.logger.error(`A request failed, and its connection was closed: ${reason}`, { error });
    response.destroy();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (shareWithOrigin(request, response, this.#callers)) return;
    const path = pathOf(request);
    const isLooking = request.method === "GET" || request.method === "HEAD";
    if (!isLooking || !OWN_PATHS.has(path)) return this.#listener(request, response);
    try {
      checkCaller(request.headers, this.#callers);
      if (path === "/metrics")
        return send(response, 200, { "content-type": METRICS_TYPE }, await this.#scrape(request));
      const body = path === "/healthz" ? { status: "alive" } : await this.#readiness();
      send(response, 200, { "content-type": "application/json" }, JSON.stringify(body));
    } catch (error) {
      if (isStoreFault(error)) this.#options.logger.error(`The store failed: ${(error as Error).message}`);
      sendProblem(response, error);
    }
  }

  /** It names every queue. */
  async #scrape(request: IncomingMessage): Promise<string> {
    this.#admit(request).grant.need(["read"], ["*"]);
    return this.#metrics.scrape(this);
  }

  /** Who may see the description of the interface needs no token for it. */
  #fetch(
    request: Request,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
  ): Promise<Response> | Response {
    const stops = { draining: this.#draining.signal, closing: this.#closing.signal };
    const fetch = (port: Port, client: string): Promise<Response> | Response =>
      this.#door.fetch(request, { port, ...stops, reserve: this.#httpAnswers.reserverFor(client, outgoing) });
    try {
      if (OPEN_PATHS.has(pathOf(incoming))) {
        checkCaller(incoming.headers, this.#callers);
        return fetch(this.#options.store, "");
      }
      const { port, owner } = this.#admit(incoming);
      this.#underWay.set(outgoing, owner);
      return fetch(port, `${owner}@${incoming.socket.remoteAddress}`);
    } catch (error) {
      return respondProblem(problemOf(error));
    }
  }

  async #readiness(): Promise<object> {
    if (!this.#isReady) throw new DibsError("UNAVAILABLE", "This server is being stopped.");
    const { store, clock } = this.#options;
    let stopTimer = (): void => {};
    const late = new Promise<never>((_, reject) => {
      stopTimer = clock.after(READY_MS, () =>
        reject(new DibsError("UNAVAILABLE", "The store does not answer.")),
      );
    });
    try {
      // A question about a queue that need not be there: answered by the store, and cheap.
      await Promise.race([store.queues("readyz"), late]);
    } finally {
      stopTimer();
    }
    return { status: "ready" };
  }
}

function pathOf({ url = "/" }: IncomingMessage): string {
  return url.split("?", 1)[0]!;
}

function notFound(request: IncomingMessage): NotFound {
  return new NotFound(request.method, pathOf(request));
}

/** What Node's parser did not take for HTTP. Undefined: the connection is lost, or TLS was never agreed on. */
function refusalOf({ code }: NodeJS.ErrnoException): HttpRefusal | undefined {
  if (code === "HPE_HEADER_OVERFLOW")
    return new HttpRefusal(431, `Headers have at most ${HEADER_BYTES} bytes.`);
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return new HttpRefusal(408, "The request did not come in time.");
  return code?.startsWith("HPE_") ? new HttpRefusal(400, "This is not HTTP.") : undefined;
}
