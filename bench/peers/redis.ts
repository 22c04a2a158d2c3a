import type { Service } from "../contender.ts";
import { freePort, missingProgram, startServer } from "./server.ts";

export interface RedisMode {
  /** As it is appended to a peer's name. */
  suffix: string;
  durability: string;
  synced: boolean;
}

export const REDIS_MODES: readonly RedisMode[] = [
  {
    suffix: "",
    durability: "may lose the last second of work in a crash of the machine (Redis, appendfsync everysec)",
    synced: false,
  },
  {
    suffix: ", synced",
    durability: "on disk before every answer (Redis, appendfsync always)",
    synced: true,
  },
];

export const missingRedis = (): string | undefined => missingProgram("redis-server");

export async function serveRedis(folder: string, { synced }: RedisMode): Promise<Service> {
  const port = await freePort();
  const settings = {
    bind: "127.0.0.1",
    port: String(port),
    dir: folder,
    appendonly: "yes",
    appendfsync: synced ? "always" : "everysec",
    save: "",
    // No eviction: a queue is not a cache.
    "maxmemory-policy": "noeviction",
  };
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
  return { address: String(port), stop: await startServer("redis-server", args, port) };
}
