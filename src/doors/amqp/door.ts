import { createServer, type Server, type Socket } from "node:net";
import { createServer as createSecureServer } from "node:tls";
import { hostname } from "node:os";
import { randomBytes } from "node:crypto";
import type { Logger } from "../../core/process/logger.ts";
import type { ClaimNotice } from "../../core/task/claim-call.ts";
import type { Port } from "../../core/port.ts";
import type { WorkerInfo } from "../../core/task/task.ts";
import { Connection, HANDSHAKE_MS } from "./connection.ts";
import type { ChannelConsumer } from "./deliveries.ts";
import { Feeder } from "./feeder.ts";
import { type Credentials, LoginDelays } from "./login.ts";
import { DEFAULT_VHOST, queueOf } from "./names.ts";
import { Sessions } from "./predecessor.ts";
import { LARGEST_BODY } from "./queue-arguments.ts";
import { OpenSockets } from "./open-sockets.ts";
import { Replies } from "./replies.ts";
import { DeadLetterRouter } from "./route-dead-letters.ts";
import { StoreHealth } from "./store-health.ts";
import { Topology } from "./topology.ts";
import { Unstored } from "./unstored.ts";
import { UnusedQueues } from "./unused-queues.ts";
import { fieldOf } from "./wire/table.ts";
import { AmqpError } from "./wire/errors.ts";

/** What a scope of a token allows. */
export type Kind = "add" | "work" | "read" | "admin";

/** A client that has logged in: its restricted port, and what it may do. */
export interface Admitted {
  port: Port;
  owner: string;
  allows(kind: Kind, queue: string): boolean;
}

export interface AmqpOptions {
  /** The store. The door claims with it for all its clients, after it has checked what each may do. */
  port: Port;
  logger: Logger;
  /** Undefined: the login is refused. */
  admit: (credentials: Credentials, address: string) => Admitted | undefined;
  tls?: { cert: Buffer; key: Buffer } | undefined;
  /** Most bytes of a message. */
  maxBody?: number | undefined;
  maxConnections: number;
  /** From the connection to the end of the handshake; in milliseconds. */
  handshakeMs?: number | undefined;
  /** Virtual hosts besides "/". */
  vhosts?: readonly string[] | undefined;
  /** Bytes of published messages that the store has not confirmed, above which publishers are blocked. */
  mostUnstored?: number | undefined;
}

const OTHER_LOOPBACK: Record<string, string | undefined> = {
  "127.0.0.1": "::1",
  localhost: "::1",
  "::1": "127.0.0.1",
};

/** A server that is killed leaves its claims for so long, unless it is started again on the same address. */
const LEASE_MS = 15_000;
const MOST_UNSTORED = 64 * 1024 * 1024;

/** How long a queue that dibs itself made is known without asking again. */
const KNOWN_MS = 1_000;

/**
 * The RabbitMQ door: a listening address, connections, and what these share. It keeps no queue of its own: feeders claim
 * from the store, and topology.ts has a copy of the exchanges that are stored there.
 */
export class AmqpDoor {
  readonly options: AmqpOptions & { maxBody: number };
  readonly port: Port;
  readonly logger: Logger;
  readonly topology: Topology;
  readonly replies = new Replies();
  readonly delays = new LoginDelays();
  readonly #servers: Server[] = [];
  readonly #sockets: OpenSockets;
  readonly #connections = new Set<Connection>();
  readonly #feeders = new Map<string, Feeder>();
  /** Queues that exist, and until when that is believed. */
  readonly #known = new Map<string, number>();
  readonly #sessions: Sessions;
  readonly #deadLetters = new DeadLetterRouter(this);
  readonly #unused = new UnusedQueues({
    find: (vhost, name) => this.topology.queue(vhost, name),
    isUsed: async ({ vhost, name }) => (await this.countsOf(queueOf(vhost, name))).consumerCount > 0,
    remove: ({ vhost, name }) => this.removeQueue(vhost, name, this.port),
  });
  readonly unstored: Unstored;
  readonly health: StoreHealth;
  readonly #vhosts: ReadonlySet<string>;
  readonly #serverId = randomBytes(6).toString("hex");
  #lastConnection = 0;
  #isDraining = false;
  #checkDrained: () => void = () => {};

  constructor(options: AmqpOptions) {
    this.options = { ...options, maxBody: options.maxBody ?? LARGEST_BODY };
    this.port = options.port;
    this.logger = options.logger;
    this.#sockets = new OpenSockets(options.maxConnections);
    this.topology = new Topology(options.port.documents);
    this.#sessions = new Sessions(options.port);
    this.#vhosts = new Set([DEFAULT_VHOST, ...(options.vhosts ?? [])]);
    this.unstored = new Unstored(options.mostUnstored ?? MOST_UNSTORED, () => this.#unblock());
    const write = () => this.port.documents.put("amqp-probe", "write", `${Date.now()}`);
    this.health = new StoreHealth(write, () => this.#unblock());
  }

  /** Why connections that publish are blocked, in words that they are told; undefined: they are not. */
  get blockReason(): string | undefined {
    if (this.health.isFailing) return "the store does not take messages";
    return this.unstored.isFull ? "low on memory" : undefined;
  }

  #unblock(): void {
    if (this.blockReason !== undefined) return;
    for (const connection of this.#connections) connection.unblock();
  }

  get connections(): number {
    return this.#connections.size;
  }

  /**
   * Listens at a port; 0: any free port. Returns it. On both loopback addresses if the host is one of them: a client that
   * asks for "localhost" tries either.
   */
  async listen(host: string, port: number): Promise<number> {
    await this.topology.fresh();
    const bound = await this.#listenOn(host, port);
    await this.#sessions.takeOver(`${host}:${bound}`);
    for (const { vhost, name } of this.topology.queues()) this.used(vhost, name);
    const other = OTHER_LOOPBACK[host];
    if (other === undefined) return bound;
    await this.#listenOn(other, bound).catch((error: unknown) => {
      // A machine without IPv6 has only one of them.
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "EADDRNOTAVAIL" && code !== "EAFNOSUPPORT") throw error;
    });
    return bound;
  }

  async #listenOn(host: string, port: number): Promise<number> {
    const { tls, handshakeMs = HANDSHAKE_MS } = this.options;
    const server = tls ? createSecureServer({ ...tls, handshakeTimeout: handshakeMs }) : createServer();
    server.on("connection", (socket: Socket) => this.#sockets.add(socket));
    server.on(tls ? "secureConnection" : "connection", (socket: Socket) => void this.#accept(socket));
    if (tls) server.on("tlsClientError", (_, socket: Socket) => socket.destroy());
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, host, () => {
        server.off("error", reject);
        server.on("error", (error) => this.logger.error(`The AMQP socket failed: ${error.message}`));
        resolve();
      });
    });
    this.#servers.push(server);
    return (server.address() as { port: number }).port;
  }

  async #accept(socket: Socket): Promise<void> {
    socket.on("error", () => socket.destroy());
    // The claims of a killed predecessor return before its clients do.
    await this.#sessions.ready;
    if (socket.destroyed || this.#isDraining) return void socket.destroy();
    const id = `${this.#serverId}/${++this.#lastConnection}`;
    this.#connections.add(new Connection(this, socket, id));
  }

  admit(credentials: Credentials, address: string): Admitted | undefined {
    return this.options.admit(credentials, address);
  }

  loggedIn(socket: Socket): void {
    this.#sockets.loggedIn(socket);
  }

  /** A virtual host is a prefix of names. The server's configuration says which ones there are. */
  hasVhost(vhost: string): boolean {
    return this.#vhosts.has(vhost);
  }

  // ── Queues ──────────────────────────────────────────────────────────────────────────────────────────────

  async exists(queue: string): Promise<boolean> {
    const { items } = await this.port.queues({ queue });
    if (items.length > 0) this.madeQueue(queue);
    else this.#known.delete(queue);
    return items.length > 0;
  }

  madeQueue(queue: string): void {
    this.#known.set(queue, performance.now() + KNOWN_MS);
    if (this.#known.size > 10_000) this.#known.delete(this.#known.keys().next().value!);
  }

  /** Before messages are routed: learns which of these names are queues that no AMQP client declared. */
  async lookUp(vhost: string, names: Iterable<string>): Promise<void> {
    const unknown = [...new Set(names)].filter((name) => !this.hasQueue(vhost, name));
    if (unknown.length > 0) await Promise.all(unknown.map((name) => this.exists(queueOf(vhost, name))));
  }

  hasQueue(vhost: string, name: string): boolean {
    if (this.topology.queue(vhost, name)) return true;
    return (this.#known.get(queueOf(vhost, name)) ?? 0) > performance.now();
  }

  async countsOf(queue: string): Promise<{ messageCount: number; consumerCount: number }> {
    const { depth, workers } = await this.port.stats(queue);
    const feeder = this.#feeders.get(queue);
    return {
      messageCount: depth.ready + depth.waiting + (feeder?.buffered ?? 0),
      consumerCount:
        (feeder?.consumers.length ?? 0) + (workers === 0 ? 0 : await this.#workersElsewhere(queue)),
    };
  }

  /** Without the sessions of this server: one stands for any number of consumers, or for basic.get alone. */
  async #workersElsewhere(queue: string): Promise<number> {
    const own = this.workerFor(queue).id;
    let count = 0;
    for (let after: string | undefined; ;) {
      const { items, next } = await this.port.workers({ queue, after });
      count += items.filter(({ id }) => id !== own).length;
      if (next === null) return count;
      after = next;
    }
  }

  async removeQueue(vhost: string, name: string, port: Port): Promise<void> {
    const queue = queueOf(vhost, name);
    const feeder = this.#feeders.get(queue);
    await port.drop(queue);
    this.#known.delete(queue);
    await this.topology.removeQueue(vhost, name);
    this.#feeders.delete(queue);
    feeder?.cancelAll();
    await feeder?.leave();
  }

  /** The queue was used: the time after which it expires starts again. What expires in it is routed. */
  used(vhost: string, name: string): void {
    this.#unused.used(vhost, name);
    const settings = this.topology.queue(vhost, name)?.arguments ?? [];
    if (fieldOf(settings, "x-dead-letter-exchange") && !this.#isDraining) this.#deadLetters.start();
  }

  // ── Sessions ────────────────────────────────────────────────────────────────────────────────────────────

  workerFor(queue: string): WorkerInfo {
    return {
      ...{ id: `amqp-${this.#serverId}`, name: "amqp", queues: [queue], concurrency: 1 },
      ...{ host: hostname().slice(0, 256), pid: process.pid },
    };
  }

  async join(worker: WorkerInfo, listener: (notice: ClaimNotice) => void): Promise<number> {
    const session = await this.port.join(worker, LEASE_MS, listener);
    await this.#sessions.joined(session);
    return session;
  }

  async leave(session: number): Promise<void> {
    await Promise.all([this.port.leave(session), this.#sessions.left(session)]).catch(() => {});
  }

  feederOf(queue: string): Feeder {
    let feeder = this.#feeders.get(queue);
    if (feeder) return feeder;
    feeder = new Feeder({
      queue,
      port: this.port,
      logger: this.logger,
      worker: this.workerFor(queue),
      join: (listener) => this.join(this.workerFor(queue), listener),
      leave: (session) => this.leave(session),
    });
    if (this.#isDraining) feeder.stop();
    this.#feeders.set(queue, feeder);
    return feeder;
  }

  /** A queue that is deleted with its last consumer goes now. A feeder without work leaves the store. */
  consumerLeft({ feeder, vhost, queueName }: ChannelConsumer): void {
    this.#checkDrained();
    if (feeder.consumers.length > 0) return;
    const record = this.topology.queue(vhost, queueName);
    if (record?.autoDelete) {
      this.removeQueue(vhost, queueName, this.port).catch((error: unknown) =>
        this.logger.error(`The queue ${queueName} could not be deleted: ${(error as Error).message}`),
      );
      return;
    }
    this.used(vhost, queueName);
    this.releaseFeeder(feeder);
  }

  releaseFeeder(feeder: Feeder): void {
    if (!feeder.isIdle || this.#feeders.get(feeder.queue) !== feeder) return;
    this.#feeders.delete(feeder.queue);
    void feeder.leave();
  }

  // ── Connections ─────────────────────────────────────────────────────────────────────────────────────────

  /** Its exclusive queues go with it. */
  async connectionEnded({ id }: Connection): Promise<void> {
    const own = [...this.topology.queues()].filter(({ owner }) => owner === id);
    await Promise.all(own.map(({ vhost, name }) => this.removeQueue(vhost, name, this.port).catch(() => {})));
    for (const feeder of this.#feeders.values()) this.releaseFeeder(feeder);
    this.#checkDrained();
  }

  forget(connection: Connection): void {
    this.#connections.delete(connection);
    this.#checkDrained();
  }

  /** Ends the connections of owners that may no longer connect. */
  dismiss(isDismissed: (owner: string) => boolean): void {
    for (const connection of this.#connections)
      if (connection.owner !== undefined && isDismissed(connection.owner))
        connection.fail(new AmqpError("CONNECTION_FORCED", "the token of this connection was revoked"));
  }

  /** Delivers no more tasks. Resolves when clients have acknowledged what they hold, or after `ms`. */
  async drain(ms: number): Promise<void> {
    this.#isDraining = true;
    for (const feeder of this.#feeders.values()) feeder.stop();
    await this.#deadLetters.stop();
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#checkDrained = () => {
        for (const feeder of this.#feeders.values()) if (feeder.isHolding) return;
        clearTimeout(timer);
        resolve();
      };
      for (const feeder of this.#feeders.values()) feeder.onSettled(() => this.#checkDrained());
      this.#checkDrained();
    });
  }

  async close(): Promise<void> {
    this.#isDraining = true;
    this.#unused.stop();
    this.health.stop();
    for (const server of this.#servers) server.close();
    const reason = "broker forced connection closure with reason 'shutdown'";
    for (const connection of this.#connections) connection.fail(new AmqpError("CONNECTION_FORCED", reason));
    await Promise.all([
      this.#deadLetters.stop(),
      ...[...this.#feeders.values()].map((feeder) => feeder.leave()),
    ]);
    // Frames that were sent just before are written before the sockets are closed.
    await new Promise((resolve) => setImmediate(resolve));
    for (const connection of this.#connections) connection.destroy();
  }
}
