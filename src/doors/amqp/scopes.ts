import type { Channel } from "./channel.ts";
import type { Kind } from "./door.ts";
import { exchangeScope, queueOf } from "./names.ts";

/** What the client's token must allow, one of `kinds`. A refusal names things as the client does, in RabbitMQ's words. */

export function needOnQueue(
  { connection, vhost }: Channel,
  kinds: readonly Kind[],
  name: string,
  what = `queue '${name}'`,
): void {
  connection.needAny(kinds, queueOf(vhost, name), what);
}

export function needOnExchange({ connection, vhost }: Channel, kinds: readonly Kind[], name: string): void {
  connection.needAny(kinds, exchangeScope(vhost, name), `exchange '${name}'`);
}
