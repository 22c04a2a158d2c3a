import type { IncomingMessage, Server as HttpServer, ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { AnswerBudget } from "../core/answer/answer-budget.ts";
import { startTimer } from "../core/time/clock.ts";
import { DibsError } from "../core/errors/errors.ts";
import type { Port } from "../core/port.ts";
import { show } from "../core/errors/show.ts";
import { isStoreFault } from "../core/errors/store-fault.ts";
import { throttleLogger } from "../core/process/throttled-logger.ts";
import { AmqpDoor } from "../doors/amqp/door.ts";
import { createServer } from "../doors/http/node-http.ts";
import { HttpRefusal, NotFound, problemOf } from "../doors/http/problem.ts";
import { type Admitted, NativeDoor } from "../doors/native/door.ts";
import { Metrics } from "../metrics/metrics.ts";
import { PATH } from "../protocol/messages.ts";
import { cannotListen, checkAddress, listenAt } from "./address.ts";
import { admitterOf } from "./admit-amqp.ts";
import { auditOnce } from "./audit-once.ts";
import { boundEntry } from "./audit.ts";
import { bearerOf, type CallerRules, checkCaller, rulesOf, shareWithOrigin } from "./callers.ts";
import { Connections } from "./connections.ts";
import { followTokens, TOKEN_CHECK_MS } from "./follow-tokens.ts";
import { type AdminAction, guardPort } from "./guard.ts";
import { HttpAnswers } from "./http-answers.ts";
import type { HttpListener } from "./http-listener.ts";
import type { ServerOptions } from "./options.ts";
import { HEADER_BYTES, refusalOf } from "./parser-refusal.ts";
import { pathOf } from "./path-of.ts";
import { Probes } from "./probes.ts";
import type { Grant } from "./scopes.ts";
import { cutSlowReader, refuse, send, sendProblem } from "./send.ts";

// `Server`: the listening address with its doors, probes and limits. `server/serve.ts` starts it.

const DEFAULT_CONNECTIONS = 20_000;
/** Defaults of the times above. */
const HEADERS_MS = 10_000;
const REQUEST_MS = 60_000;
const READ_MS = 30_000;
const FAREWELL_MS = 2_000;
/**
 * Longer than proxies keep a connection, usually 60 s: if one side closes it while the other sends, a request is lost.
 */
const KEEP_ALIVE_MS = 75_000;
/** A client that made a request in this time may be about to make another one on the same connection. */
const LINGER_MS = 500;
/** How long requests in progress may take when the server closes. */
const LAST_ANSWERS_MS = 2_000;

/**
 * One process for clients in any language: an address, access rules, and the doors behind them.
 *
 *   listening ──drain()──▶ not ready, hands out nothing ──close()──▶ closed
 */
export class Server {
  readonly #options: ServerOptions;
  readonly #http: HttpServer;
  readonly #connections: Connections;
  readonly #native: NativeDoor;
  readonly #amqp: AmqpDoor | undefined;
  #amqpPort: number | undefined;
  /** Loaded with the first request that needs it. */
  #listener: Promise<HttpListener> | undefined;
  readonly #callers: CallerRules;
  readonly #audit: (action: AdminAction) => void;
  readonly #probes: Probes;
  readonly #httpAnswers: HttpAnswers;
  /** The store, with calls counted. */
  readonly #store: Port;
  /** Requests in progress, with their owner. */
  readonly #inProgress = new Map<ServerResponse, string | undefined>();
  readonly #draining = new AbortController();
  readonly #closing = new AbortController();
  #requestedAt = Number.NEGATIVE_INFINITY;
  #stopFollowing: () => void = () => {};

  private constructor(options: ServerOptions) {
    const logger = throttleLogger(options.logger);
    this.#options = { ...options, logger };
    const { clock, host, allowHosts = [], allowOrigins = [] } = options;
    const trail = auditOnce(options.audit ?? (() => {}));
    this.#audit = (action) => trail(boundEntry(action));
    this.#callers = rulesOf(host, allowHosts, allowOrigins);
    const metrics = new Metrics();
    this.#store = metrics.measure(options.store);
    options.onMeasured?.((measured) => metrics.record(measured));
    this.#probes = new Probes({
      ...{ store: options.store, clock, metrics },
      isReady: () => this.#isReady,
      count: () => ({ clients: this.clients, connections: this.connections }),
    });
    const { headersMs = HEADERS_MS, requestMs = REQUEST_MS } = options;
    const { readMs = READ_MS, farewellMs = FAREWELL_MS } = options;
    const budget = new AnswerBudget();
    this.#httpAnswers = new HttpAnswers(budget);
    this.#native = new NativeDoor({ ...options.native, clock, logger, budget });
    const { amqp, tls, maxConnections } = options;
    this.#amqp =
      amqp &&
      new AmqpDoor({
        ...{ port: this.#store, logger, tls, maxBody: amqp.maxBody, handshakeMs: amqp.handshakeMs },
        ...{ vhosts: amqp.vhosts, mostUnstored: amqp.mostUnstored },
        maxConnections: maxConnections ?? DEFAULT_CONNECTIONS,
        admit: admitterOf(options, (grant) => guardPort(this.#store, grant, this.#audit)),
      });
    const limits = {
      ...{ headersTimeout: headersMs, requestTimeout: requestMs, maxHeaderSize: HEADER_BYTES },
      connectionsCheckingInterval: Math.min(TOKEN_CHECK_MS, headersMs),
      keepAliveTimeout: KEEP_ALIVE_MS,
    };
    this.#http = options.tls
      ? createSecureServer({ ...limits, ...options.tls, handshakeTimeout: headersMs })
      : createServer(limits);
    const max = maxConnections ?? DEFAULT_CONNECTIONS;
    this.#connections = new Connections(this.#http, { max, readMs, farewellMs });
    this.#http.on("request", (request, response) => {
      cutSlowReader(response, readMs);
      this.#follow(response);
      this.#answer(request, response).catch((error: unknown) => this.#cut(response, error));
    });
    this.#http.on("checkExpectation", (_, response) => {
      sendProblem(response, new HttpRefusal(417, "Expect must be 100-continue, or absent."));
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
    // Existing tokens are not changes.
    options.access.changes();
    await listenAt(server.#http, options, (error) =>
      server.#options.logger.error(`The server's socket failed: ${error.message}`),
    );
    await server.#listenForAmqp();
    server.#stopFollowing = followTokens(server.#options, server.#audit, () => server.#dismiss());
    return server;
  }

  /** The address of the server, as clients write it. */
  get url(): string {
    const { address, port, family } = this.#http.address() as AddressInfo;
    const host = family === "IPv6" ? `[${address}]` : address;
    return `${this.#options.tls ? "https" : "http"}://${host}:${port}`;
  }

  /** Where AMQP clients connect; undefined without that door. */
  get amqpPort(): number | undefined {
    return this.#amqpPort;
  }

  get clients(): number {
    return this.#native.clients + (this.#amqp?.connections ?? 0);
  }

  /** Open TCP connections of any kind. */
  get connections(): number {
    return this.#connections.count + (this.#amqp?.connections ?? 0);
  }

  /** Reports that it is not ready, gives clients no more tasks, and lets them finish for `ms`. */
  async drain(ms: number): Promise<void> {
    this.#stopHandingOut();
    await Promise.all([this.#native.drain(ms), this.#amqp?.drain(ms)]);
    // A client learns from its next answer that the connection ends. If it were closed before that, the client would
    // not know whether its request was received.
    if (performance.now() - this.#requestedAt < LINGER_MS)
      await new Promise<void>((resolve) => this.#options.clock.after(LINGER_MS, resolve));
  }

  /** Requests in progress are answered. Waiting requests get UNAVAILABLE. */
  async close(): Promise<void> {
    this.#stopHandingOut();
    this.#closing.abort(new DibsError("UNAVAILABLE", "This server is being stopped. Try again soon."));
    this.#stopFollowing();
    this.#native.close();
    await this.#amqp?.close();
    const closed = new Promise<void>((resolve) => this.#http.close(() => resolve()));
    const stopTimer = startTimer(LAST_ANSWERS_MS, () => this.#connections.destroyAll());
    await closed;
    stopTimer();
    this.#connections.close();
  }

  get #isReady(): boolean {
    return !this.#draining.signal.aborted;
  }

  /** Also keeps no connection open for another request. */
  #stopHandingOut(): void {
    const reason = "This server is being stopped and hands out no more tasks. Try again soon.";
    this.#draining.abort(new DibsError("UNAVAILABLE", reason));
    for (const response of this.#inProgress.keys()) response.shouldKeepAlive = false;
  }

  /** Tracks a request until it is answered. */
  #follow(response: ServerResponse): void {
    this.#requestedAt = performance.now();
    if (!this.#isReady) response.shouldKeepAlive = false;
    this.#inProgress.set(response, undefined);
    const served = this.#connections.serve(response.req);
    response.once("close", () => {
      this.#inProgress.delete(response);
      served();
    });
  }

  /** Many connections have the same owner: each owner is checked once. */
  #dismiss(): void {
    const { access } = this.#options;
    const known = new Map<string, boolean>();
    const isDismissed = (owner: string): boolean => {
      if (!known.has(owner)) known.set(owner, !access.isWelcome(owner));
      return known.get(owner)!;
    };
    this.#native.dismiss(isDismissed);
    this.#amqp?.dismiss(isDismissed);
    for (const [response, owner] of this.#inProgress)
      if (owner !== undefined && isDismissed(owner)) response.destroy();
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on("error", () => socket.destroy());
    this.#connections.serve(request);
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

  async #listenForAmqp(): Promise<void> {
    const { amqp, host } = this.#options;
    if (!this.#amqp || !amqp) return;
    try {
      this.#amqpPort = await this.#amqp.listen(host, amqp.port);
    } catch (error) {
      await this.close();
      throw cannotListen(host, amqp.port, error as NodeJS.ErrnoException, "--amqp-port");
    }
  }

  /** The last resort for an unexpected exception: it ends this connection, never the process. */
  #cut(response: ServerResponse, error: unknown): void {
    const reason = error instanceof Error ? error.message : show(error);
    this.#options.logger.error(`A request failed, and its connection was closed: ${reason}`, { error });
    response.destroy();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (shareWithOrigin(request, response, this.#callers)) return;
    const path = pathOf(request);
    const isLooking = request.method === "GET" || request.method === "HEAD";
    if (!isLooking || !this.#probes.has(path)) {
      const listener = await (this.#listener ??= this.#loadListener());
      // The client may have gone meanwhile.
      return response.destroyed ? undefined : listener(request, response);
    }
    try {
      checkCaller(request.headers, this.#callers);
      // The metrics name every queue.
      if (path === "/metrics") this.#admit(request).grant.need(["read"], ["*"]);
      const { type, text } = await this.#probes.answer(path);
      send(response, 200, { "content-type": type }, text);
    } catch (error) {
      if (isStoreFault(error)) this.#options.logger.error(`The store failed: ${(error as Error).message}`);
      sendProblem(response, error);
    }
  }

  async #loadListener(): Promise<HttpListener> {
    const { createListener } = await import("./http-listener.ts");
    return createListener({
      options: { ...this.#options, readMs: this.#options.readMs ?? READ_MS },
      ...{ store: this.#store, audit: this.#audit, callers: this.#callers, answers: this.#httpAnswers },
      admit: (request) => this.#admit(request),
      onOwner: (response, owner) => this.#inProgress.set(response, owner),
      ...{ draining: this.#draining.signal, closing: this.#closing.signal },
    });
  }
}

function notFound(request: IncomingMessage): NotFound {
  return new NotFound(request.method, pathOf(request));
}
