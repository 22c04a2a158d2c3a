import { Client, type ClientConfig } from "pg";
import type { PostgresPool } from "../../../core/process/address.ts";
import { invalid } from "../../../core/errors/errors.ts";
import type { GivePassword } from "./password.ts";

/**
 * What dibs takes from a `pg.Pool` of the user, for engine.ts: how it connects. Its clients stay the user's. dibs keeps
 * its connections open, pipelines statements, listens, and plans with settings of its own: a client that returned to
 * the pool after that would be a surprise.
 */

export type PoolConfig = Omit<ClientConfig, "password"> & { password?: string };

/** Options that say where and as whom to connect. The others, such as time-outs of queries, are for the pool's users. */
const TAKEN = [
  ...["connectionString", "host", "port", "user", "database", "password", "ssl", "sslnegotiation"],
  ...["options", "application_name", "stream", "enableChannelBinding"],
] as const;

export interface FromPool {
  /** For messages. */
  url: string;
  pool: PoolConfig;
  password: GivePassword | undefined;
  /** False: it contains functions, such as `stream`, and cannot be passed to a thread. */
  canBeCloned: boolean;
}

type PasswordOfPool = (parameters: unknown) => string | Promise<string>;

export function readPool({ options }: PostgresPool): FromPool {
  const given = options as Record<string, unknown>;
  const { password, ...config } = copyConfig(
    Object.fromEntries(TAKEN.filter((name) => given[name] !== undefined).map((name) => [name, given[name]])),
  ) as ClientConfig;
  const pool: PoolConfig = { ...config, ...(typeof password === "string" && { password }) };
  if (typeof pool.host === "string" && pool.host.includes(","))
    throw invalid(
      "The pool names several hosts. Give dibs one that leads to the server which can be written to.",
    );
  const { host, port, database, connectionParameters } = new Client(copyConfig(pool)) as Client & {
    connectionParameters: unknown;
  };
  const give = password as PasswordOfPool;
  return {
    url: pool.connectionString ?? urlOf(host, port, database ?? ""),
    pool,
    password: typeof password === "function" ? () => give(connectionParameters) : undefined,
    canBeCloned: canBeCloned(pool),
  };
}

function urlOf(host: string, port: number, database: string): string {
  return host.startsWith("/")
    ? `postgres:///${database}?host=${host}`
    : `postgres://${host}:${port}/${database}`;
}

/** `pg` hides the private key of the objects that it is given. A copy has it again. */
export function copyConfig<Config extends ClientConfig>(config: Config): Config {
  const { ssl } = config;
  if (typeof ssl !== "object") return { ...config };
  return { ...config, ssl: { ...ssl, ...(ssl.key !== undefined && { key: ssl.key }) } };
}

function canBeCloned(config: PoolConfig): boolean {
  try {
    structuredClone(config);
    return true;
  } catch {
    return false;
  }
}
