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
import type { Clock } from "../core/clock.ts";
import { DibsError, invalid } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { Port } from "../core/port.ts";
import { createHttpDoor, type HttpDoor, respondProblem } from "../doors/http/door.ts";
import { type Admitted, NATIVE_DEFAULTS, NativeDoor, type NativeOptions } from "../doors/native/door.ts";
import { PATH } from "../protocol/messages.ts";
import type { Access } from "./access.ts";
import { bearerOf, type CallerRules, checkCaller, isLoopback } from "./callers.ts";
import { type AdminAction, guardPort } from "./guard.ts";
import { Metrics } from "./metrics.ts";
import type { Grant } from "./scopes.ts";
import { NotFound, type Problem, problemOf } from "../doors/http/problem.ts";

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
  native?: Omit<NativeOptions, "clock" | "logger">;
}

const DEFAULT_CONNECTIONS = 20_000;
/** Who is slower than this with a request is cut off. */
const HEADERS_MS = 10_000;
const REQUEST_MS = 60_000;
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
  readonly #native: NativeDoor;
  readonly #door: HttpDoor;
  readonly #listener: (request: IncomingMessage, response: ServerResponse) => Promise<void>;
  readonly #callers: CallerRules;
  readonly #metrics: Metrics;
  /** The store, with what goes through here counted. */
  readonly #store: Port;
  #isReady = true;
  #stopLooking: () => void = () => {};

  private constructor(options: ServerOptions) {
    this.#options = options;
    const { clock, logger, host, allowHosts = [] } = options;
    this.#callers = { allowHosts: [...allowHosts, host], allowOrigins: options.allowOrigins ?? [] };
    this.#metrics = new Metrics(options.store);
    this.#store = this.#metrics.measure(options.store);
    this.#door = createHttpDoor({
      maxBody: options.native?.maxFrame ?? NATIVE_DEFAULTS.maxFrame,
      onFailure: (error) => logger.error(`A request failed: ${(error as Error).message}`),
    });
    this.#listener = getRequestListener(
      (request, { incoming }) => this.#fetch(request, incoming as IncomingMessage),
      {
        overrideGlobalObjects: false,
      },
    );
    this.#native = new NativeDoor({ ...options.native, clock, logger });
    const limits = { headersTimeout: HEADERS_MS, requestTimeout: REQUEST_MS, maxHeaderSize: HEADER_BYTES };
    this.#http = options.tls
      ? createSecureServer({ ...limits, ...options.tls })
      : createServer({ ...limits, connectionsCheckingInterval: LOOK_EVERY_MS });
    this.#http.maxConnections = options.maxConnections ?? DEFAULT_CONNECTIONS;
    this.#http.on("request", (request, response) => void this.#answer(request, response));
    this.#http.on("upgrade", (request, socket, head) => this.#upgrade(request, socket, head));
  }

  static async start(options: ServerOptions): Promise<Server> {
    checkAddress(options);
    const server = new Server(options);
    await server.#listen();
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

  /** Says that it is not ready, hands out nothing more, and gives clients `ms` to finish what they hold. */
  async drain(ms: number): Promise<void> {
    this.#isReady = false;
    await this.#native.drain(ms);
  }

  async close(): Promise<void> {
    this.#isReady = false;
    this.#stopLooking();
    this.#native.close();
    const closed = new Promise<void>((resolve) => this.#http.close(() => resolve()));
    this.#http.closeAllConnections();
    await closed;
  }

  async #listen(): Promise<void> {
    const { host, port } = this.#options;
    await new Promise<void>((resolve, reject) => {
      const fail = (error: NodeJS.ErrnoException): void => reject(cannotListen(host, port, error));
      this.#http.once("error", fail);
      this.#http.listen(port, host, () => {
        this.#http.off("error", fail);
        this.#http.on("error", (error) =>
          this.#options.logger.error(`The server's socket failed: ${error.message}`),
        );
        resolve();
      });
    });
  }

  /** A token that was revoked lets nobody stay. */
  #lookAtTokens(): void {
    this.#stopLooking = this.#options.clock.after(LOOK_EVERY_MS, () => {
      try {
        this.#native.dismiss((owner) => !this.#options.access.isWelcome(owner));
      } catch (error) {
        this.#options.logger.error((error as Error).message);
      }
      this.#lookAtTokens();
    });
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on("error", () => socket.destroy());
    try {
      if (pathOf(request) !== PATH) throw notFound(request);
      this.#native.accept(request, socket, head, this.#admit(request));
    } catch (error) {
      refuseUpgrade(socket, problemOf(error));
    }
  }

  #admit({ headers }: IncomingMessage): Admitted & { grant: Grant } {
    const { access, audit = () => {} } = this.#options;
    checkCaller(headers, this.#callers);
    const { owner, grant } = access.enter(bearerOf(headers));
    const ticketOf = (session: number): string => access.ticketOf(owner, session);
    return { port: guardPort(this.#store, grant, audit), grant, owner, ticketOf };
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = pathOf(request);
    const isLooking = request.method === "GET" || request.method === "HEAD";
    if (!isLooking || !OWN_PATHS.has(path)) return this.#listener(request, response);
    try {
      checkCaller(request.headers, this.#callers);
      if (path === "/metrics") return send(response, 200, METRICS_TYPE, await this.#scrape(request));
      const body = path === "/healthz" ? { status: "alive" } : await this.#readiness();
      send(response, 200, "application/json", JSON.stringify(body));
    } catch (error) {
      const problem = problemOf(error);
      send(response, problem.status, "application/problem+json", JSON.stringify(problem));
    }
  }

  /** It names every queue. */
  async #scrape(request: IncomingMessage): Promise<string> {
    this.#admit(request).grant.need(["read"], ["*"]);
    return this.#metrics.scrape(this.#native.clients);
  }

  /** Who may see the description of the interface needs no token for it. */
  #fetch(request: Request, incoming: IncomingMessage): Promise<Response> | Response {
    try {
      const isOpen = OPEN_PATHS.has(pathOf(incoming));
      if (isOpen) checkCaller(incoming.headers, this.#callers);
      const { port } = isOpen ? { port: this.#options.store } : this.#admit(incoming);
      return this.#door.fetch(request, { port, isDraining: () => !this.#isReady });
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

function checkAddress({ host, letAnyoneIn, access }: ServerOptions): void {
  if (isLoopback(host) || letAnyoneIn || access.asksForTokens) return;
  throw invalid(
    `--host ${host} lets others than this machine in, and there are no tokens yet: anybody could read and change ` +
      `everything. Make one with \`dibs tokens add NAME --scope admin:*\`, or say --let-anyone-in if that is what you want.`,
  );
}

function cannotListen(host: string, port: number, error: NodeJS.ErrnoException): DibsError {
  const advice =
    error.code === "EADDRINUSE"
      ? "Something listens there already; take another --port, or stop it."
      : "Check --host and --port.";
  return new DibsError("INVALID", `dibs cannot listen on ${host} port ${port}: ${error.message}. ${advice}`);
}

function pathOf({ url = "/" }: IncomingMessage): string {
  return url.split("?", 1)[0]!;
}

function notFound(request: IncomingMessage): NotFound {
  return new NotFound(request.method, pathOf(request));
}

function send(response: ServerResponse, status: number, type: string, text: string): void {
  response.writeHead(status, {
    "content-type": type,
    "content-length": Buffer.byteLength(text),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  });
  response.end(response.req.method === "HEAD" ? undefined : text);
}

function refuseUpgrade(socket: Duplex, problem: Problem): void {
  const text = JSON.stringify(problem);
  socket.end(
    `HTTP/1.1 ${problem.status} Refused\r\nContent-Type: application/problem+json\r\n` +
      `Content-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
  );
}
