import type { SettleCall } from "../../core/task/claim-call.ts";
import type { ClaimedTask, NewTask } from "../../core/task/task.ts";
import type { AmqpDoor } from "./door.ts";
import { type Message, messageOf } from "./message.ts";
import { queueTask } from "./queue-task.ts";
import { route } from "./route.ts";
import { keysIn } from "./sender-keys.ts";
import { longstrTable, type Field, fieldOf, long, numberOf, type Table, text, textOf } from "./wire/table.ts";
import { readProperties, replaceProperties } from "./wire/properties.ts";

/** Why a queue gave a message up, as the x-death header names it. */
export type DeathReason = "rejected" | "delivery_limit" | "expired" | "maxlen";

/**
 * How a claim ends whose message its queue gives up. With a dead-letter exchange, the message moves to the queues that
 * the exchange leads to, in the same commit that ends the claim. Undefined: the queue has none.
 */
export function deadLetter(
  door: AmqpDoor,
  vhost: string,
  name: string,
  task: ClaimedTask,
  reason: DeathReason,
): SettleCall | undefined {
  const adds = deadLetters(door, vhost, name, messageOf(task, name), reason);
  return adds && { kind: "ack", result: null, ...(adds.length > 0 && { adds }) };
}

/** The tasks that a message becomes which its queue gives up. Undefined: the queue has no dead-letter exchange. */
export function deadLetters(
  door: AmqpDoor,
  vhost: string,
  name: string,
  message: Message,
  reason: DeathReason,
): NewTask[] | undefined {
  const settings = door.topology.queue(vhost, name)?.arguments ?? [];
  const exchange = textOf(fieldOf(settings, "x-dead-letter-exchange"));
  if (exchange === undefined) return undefined;
  const read = readProperties(message.properties);
  const headers = withDeath(read.headers ?? [], name, message, reason, read.expiration, Date.now());
  const named = textOf(fieldOf(settings, "x-dead-letter-routing-key"));
  // CC is a list of further keys; with a key of the queue's own, only that one counts.
  const keys = named === undefined ? [message.routingKey, ...keysIn(headers, "CC")] : [named];
  const kept = named === undefined ? headers : headers.filter(([each]) => each !== "CC");
  const properties = replaceProperties(message.properties, { headers: longstrTable(kept), expiration: null });
  const dead: Message = { exchange, routingKey: keys[0]!, properties, body: message.body };
  const again = readProperties(properties);
  return targetsOf(door, vhost, exchange, keys, kept)
    .filter((each) => reason === "rejected" || !isRing(kept, each))
    .map((each) => queueTask(door, vhost, each, dead, again));
}

/** The message was in this queue before, and no consumer has rejected it since: it would go round without end. */
function isRing(headers: Table, target: string): boolean {
  const field = fieldOf(headers, DEATHS);
  const deaths = field?.type === "A" ? field.value : [];
  const last = deaths.findIndex((death) => textOfDeath(death, "queue") === target);
  if (last < 0) return false;
  return deaths.slice(0, last + 1).every((death) => textOfDeath(death, "reason") !== "rejected");
}

function textOfDeath(death: Field, name: string): string | undefined {
  return death.type === "F" ? textOf(fieldOf(death.value, name)) : undefined;
}

function targetsOf(
  door: AmqpDoor,
  vhost: string,
  exchange: string,
  keys: string[],
  headers: Table,
): string[] {
  if (exchange === "") return [...new Set(keys)].filter((name) => door.hasQueue(vhost, name));
  const from = door.topology.exchange(vhost, exchange);
  // A dead-letter exchange that does not exist drops the message, as RabbitMQ's does.
  return from ? route((name) => door.topology.exchange(vhost, name), from, keys, headers) : [];
}

const DEATHS = "x-death";

/**
 * The headers with this death in front. An earlier one from the same queue, for the same reason, moves there and counts
 * up: its exchange, keys and expiration stay those of the first time, as in RabbitMQ. What is not a list of deaths is
 * replaced.
 */
export function withDeath(
  headers: Table,
  queue: string,
  { exchange, routingKey }: Pick<Message, "exchange" | "routingKey">,
  reason: DeathReason,
  expiration: string | undefined,
  now: number,
): Table {
  const field = fieldOf(headers, DEATHS);
  const before = field?.type === "A" ? field.value : [];
  const isSame = (death: Field): boolean =>
    textOfDeath(death, "queue") === queue && textOfDeath(death, "reason") === reason;
  const earlier = before.find(isSame);
  const keys = [routingKey, ...keysIn(headers, "CC")].map(text);
  const death: Field =
    earlier?.type === "F"
      ? countedUp(earlier.value)
      : {
          type: "F",
          value: [
            ["count", long(1)],
            ["reason", text(reason)],
            ["queue", text(queue)],
            ["time", { type: "T", value: BigInt(Math.floor(now / 1_000)) }],
            ["exchange", text(exchange)],
            ["routing-keys", { type: "A", value: keys }],
            ...(expiration === undefined ? [] : ([["original-expiration", text(expiration)]] as Table)),
          ],
        };
  const deaths: Field = { type: "A", value: [death, ...before.filter((each) => !isSame(each))] };
  const first: Table =
    field === undefined
      ? [
          ["x-first-death-exchange", text(exchange)],
          ["x-first-death-queue", text(queue)],
          ["x-first-death-reason", text(reason)],
        ]
      : [];
  const replaced = new Set([DEATHS, ...first.map(([name]) => name)]);
  return [...headers.filter(([name]) => !replaced.has(name)), [DEATHS, deaths], ...first];
}

function countedUp(death: Table): Field {
  const count = (numberOf(fieldOf(death, "count")) ?? 0) + 1;
  return { type: "F", value: [["count", long(count)], ...death.filter(([name]) => name !== "count")] };
}
