import type { Contender } from "./contender.ts";
import { dibs, dibsOnPostgres, dibsServer } from "./dibs.ts";
import { beanstalkd } from "./peers/beanstalkd.ts";
import { beeQueue } from "./peers/bee-queue.ts";
import { bullmq, bullmqOnPostgres } from "./peers/bullmq.ts";
import { graphileWorker } from "./peers/graphile-worker.ts";
import { nats } from "./peers/nats.ts";
import { pgBoss } from "./peers/pg-boss.ts";
import { plainjob } from "./peers/plainjob.ts";
import { dibsAmqp, rabbitmq } from "./peers/rabbitmq.ts";

/** By family: one name on the command line stands for all modes of a peer. */
export const PEERS: Record<string, readonly Contender[]> = {
  server: [dibsServer],
  postgres: [dibsOnPostgres],
  amqp: [dibsAmqp],
  plainjob,
  beanstalkd,
  "bee-queue": beeQueue,
  bullmq,
  rabbitmq,
  nats,
  "graphile-worker": graphileWorker,
  "pg-boss": pgBoss,
  "bullmq-postgres": bullmqOnPostgres,
};

export const CONTENDERS: readonly Contender[] = [dibs, ...Object.values(PEERS).flat()];

export function findContender(name: string): Contender {
  const found = CONTENDERS.find((contender) => contender.name === name);
  if (found === undefined) throw new Error(`There is no contender "${name}".`);
  return found;
}

/** By name on the command line. */
export const DIBS: Record<string, Contender> = {
  file: dibs,
  server: dibsServer,
  postgres: dibsOnPostgres,
  amqp: dibsAmqp,
};

/** They need no third-party client. */
export const OURS: readonly Contender[] = Object.values(DIBS);
