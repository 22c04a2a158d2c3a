import type { Client } from "pg";
import type { Clock } from "../../src/core/time/clock.ts";
import type { Engine, Op, Outcome, Outcomes, TransactionVerb } from "../../src/engine/engine.ts";
import { HeartbeatTimer } from "../../src/engine/heartbeat-timer.ts";
import { openPostgres, type PostgresOptions } from "../../src/engines/postgres/engine.ts";
import { Connection } from "../../src/engines/postgres/connection/connection.ts";
import type {
  Heartbeats,
  HeartbeatData,
  HeartbeatReport,
} from "../../src/engines/postgres/heartbeat/heartbeats.ts";
import { ReconnectingStore } from "../../src/engines/postgres/batch/reconnecting-store.ts";
import { Sender } from "../../src/engines/postgres/batch/sender.ts";
import type { ManualClock } from "../../src/testing/manual-clock.ts";

/**
 * The server's own clock, moved by a test: a connection whose search path begins with this schema finds its functions
 * before PostgreSQL's. The time is in a sequence, which transactions see at once, at every isolation level.
 */
export const clockIn = (schema: string): string => `
  CREATE SCHEMA ${schema};
  CREATE SEQUENCE ${schema}.ms MINVALUE 0;
  SELECT setval('${schema}.ms', 0);
  CREATE FUNCTION ${schema}.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql AS $$
    SELECT to_timestamp(0) + pg_sequence_last_value('${schema}.ms') * interval '1 millisecond' $$;
  CREATE FUNCTION ${schema}.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql AS $$
    SELECT to_timestamp(0) + pg_sequence_last_value('${schema}.ms') * interval '1 millisecond' $$`;

export const setClock = (schema: string): string => `SELECT setval('${schema}.ms', $1)`;

const SCHEMA = "moved_clock";

/** For all connections to a database, before a store is opened in it. */
export async function installClock(admin: Client): Promise<void> {
  await admin.query(`
    ${clockIn(SCHEMA)};
    DO $$ BEGIN
      EXECUTE format('ALTER DATABASE %I SET search_path = ${SCHEMA}, pg_catalog, public', current_database());
    END $$`);
}

/**
 * Keeps the server's clock at the time of a manual one. The server does not sleep, and its calendar is not stepped: its
 * clock follows elapsed time.
 */
export class ServerClock {
  readonly #admin: Client;
  readonly #clock: ManualClock;
  readonly #began: number;
  #told = -1;
  #telling: Promise<void> | undefined;

  constructor(admin: Client, clock: ManualClock) {
    this.#admin = admin;
    this.#clock = clock;
    const { wall, elapsed } = clock.read();
    this.#began = wall - elapsed;
  }

  /** Settles when the server has the time; undefined if it already has it. Await it before any call to the store. */
  tell(): Promise<void> | undefined {
    const now = Math.floor(this.#began + this.#clock.read().elapsed);
    if (now === this.#told) return this.#telling;
    this.#told = now;
    const telling = this.#tell(now, this.#telling).finally(() => {
      if (this.#telling === telling) this.#telling = undefined;
    });
    this.#telling = telling;
    return telling;
  }

  async #tell(now: number, before: Promise<void> | undefined): Promise<void> {
    await before;
    await this.#admin.query(setClock(SCHEMA), [now]);
  }
}

/** Opens a store with the server's clock. `beats`: timers for the heartbeats, which a thread sends otherwise. */
export async function openByServerClock(
  options: PostgresOptions,
  server: ServerClock,
  { clock, beats }: { clock: ManualClock; beats: Clock },
): Promise<Engine> {
  await server.tell();
  const engine = await openPostgres(
    options,
    (data, onReport) => new ManualHeartbeats(data, onReport, { server, clock, beats }),
  );
  return new TimedEngine(engine, server);
}

/** Sets the server's time before each batch. */
class TimedEngine implements Engine {
  readonly depth: number;
  readonly #engine: Engine;
  readonly #server: ServerClock;

  constructor(engine: Engine, server: ServerClock) {
    this.#engine = engine;
    this.#server = server;
    this.depth = engine.depth;
  }

  execute<const Ops extends readonly Op[]>(ops: Ops): Promise<Outcomes<Ops>> {
    return this.#inTime(() => this.#engine.execute(ops));
  }

  executeInTransaction<V extends TransactionVerb>(tx: unknown, op: Op<V>): Promise<Outcome<V>> {
    return this.#inTime(() => this.#engine.executeInTransaction!(tx, op));
  }

  #inTime<T>(ask: () => Promise<T>): Promise<T> {
    return this.#server.tell()?.then(ask) ?? ask();
  }

  onHint(listener: Parameters<Engine["onHint"]>[0]): void {
    this.#engine.onHint(listener);
  }

  stopRetrying(): void {
    this.#engine.stopRetrying?.();
  }

  close(): Promise<void> {
    return this.#engine.close();
  }
}

/** Sends heartbeats as the thread does, on its own connection, but with the timers of a manual clock. */
class ManualHeartbeats implements Heartbeats {
  readonly #sender: Sender;
  readonly #heart: HeartbeatTimer;
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(
    { link, ...reach }: HeartbeatData,
    onReport: (report: HeartbeatReport) => void,
    { server, clock, beats }: { server: ServerClock; clock: ManualClock; beats: Clock },
  ) {
    this.#sender = new Sender(new ReconnectingStore({ connect: () => Connection.open(link), ...reach }));
    this.#heart = new HeartbeatTimer(beats.after.bind(beats), (sessions) => {
      const beating = this.#beat(sessions, server, onReport);
      this.#underWay.add(beating);
      clock.standStill(beating);
      return beating.finally(() => this.#underWay.delete(beating));
    });
  }

  async #beat(
    sessions: number[],
    server: ServerClock,
    onReport: (report: HeartbeatReport) => void,
  ): Promise<boolean> {
    await server.tell();
    onReport({ result: await this.#sender.run([{ verb: "heartbeat", sessions }]) });
    return true;
  }

  join(session: number, lease: number): void {
    this.#heart.join(session, lease);
  }

  leave(session: number): void {
    this.#heart.leave(session);
  }

  async stop(): Promise<void> {
    this.#heart.stop();
    await Promise.allSettled(this.#underWay);
    await this.#sender.close();
  }
}
