import type { Channel, Handlers } from "./channel.ts";
import { checkSameArgument, refuseDifference } from "./equivalence.ts";
import { type Binding, type Exchange, EXCHANGE_TYPES, type ExchangeType } from "./route.ts";
import { needOnExchange } from "./scopes.ts";
import { AmqpError, octets } from "./wire/errors.ts";
import { fieldOf, readTable, shownValue, type Table, textOf, typeName } from "./wire/table.ts";

/** The methods on exchanges. */

export function needExchange(channel: Channel, name: string): Exchange {
  const exchange = channel.connection.door.topology.exchange(channel.vhost, name);
  if (!exchange) throw new AmqpError("NOT_FOUND", `no exchange '${name}' in vhost '${channel.vhost}'`);
  return exchange;
}

export function refuseDefault(name: string): void {
  if (name === "") throw new AmqpError("ACCESS_REFUSED", "operation not permitted on the default exchange");
}

function checkEquivalent(channel: Channel, before: Exchange, now: Omit<Exchange, "bindings">): void {
  const where = `exchange '${now.name}' in vhost '${channel.vhost}'`;
  if (before.type !== now.type) refuseDifference("type", `'${now.type}'`, `'${before.type}'`, where);
  for (const [field, name] of FLAGS)
    if (before[field] !== now[field]) refuseDifference(name, `'${now[field]}'`, `'${before[field]}'`, where);
  const [had, has] = [fieldOf(before.arguments, ALTERNATE), fieldOf(now.arguments, ALTERNATE)];
  checkSameArgument(ALTERNATE, had, has, where);
}

const ALTERNATE = "alternate-exchange";
const FLAGS = [
  ["durable", "durable"],
  ["autoDelete", "auto_delete"],
  ["internal", "internal"],
] as const;

function typeOf(type: string): ExchangeType {
  const known = EXCHANGE_TYPES.find((each) => each === type);
  if (!known)
    throw new AmqpError("COMMAND_INVALID", `${type === "" ? "invalid" : "unknown"} exchange type '${type}'`);
  return known;
}

interface Ends {
  source: string;
  destination: string;
  to: Binding["to"];
  routingKey: string;
  arguments: Buffer;
}

/** Checked by both ways to bind. */
export function bindingOf(channel: Channel, { arguments: bytes, ...ends }: Ends): Binding {
  refuseDefault(ends.source);
  if (ends.to === "exchange") refuseDefault(ends.destination);
  const source = needExchange(channel, ends.source);
  const table = readTable(bytes);
  if (source.type === "headers") checkMatch(table);
  return { vhost: channel.vhost, ...ends, arguments: table };
}

const MATCHES = new Set(["all", "any", "all-with-x", "any-with-x"]);

function checkMatch(table: Table): void {
  const field = fieldOf(table, "x-match");
  if (!field) return;
  if (field.type !== "S")
    throw new AmqpError(
      "PRECONDITION_FAILED",
      `Invalid x-match field type ${typeName(field)} (value ${shownValue(field)}); expected longstr`,
    );
  if (!MATCHES.has(field.value.toString()))
    throw new AmqpError(
      "PRECONDITION_FAILED",
      `Invalid x-match field value ${octets(field.value)}; expected all, any, all-with-x, or any-with-x`,
    );
}

export const EXCHANGE_HANDLERS: Handlers = {
  "exchange.declare": async (channel, args) => {
    const { exchange: name, type, passive, durable, autoDelete, internal, noWait } = args;
    const { connection, vhost } = channel;
    const { topology } = connection.door;
    refuseDefault(name);
    needOnExchange(channel, passive ? ["add", "work", "read"] : ["add", "work"], name);
    await topology.fresh();
    if (passive) {
      needExchange(channel, name);
      return channel.answer(noWait, "exchange.declare-ok", {});
    }
    const table: Table = readTable(args.arguments);
    const alternate = fieldOf(table, ALTERNATE);
    if (alternate && alternate.type !== "S")
      throw new AmqpError(
        "PRECONDITION_FAILED",
        `invalid type '${typeName(alternate)}' for arg '${ALTERNATE}' in exchange '${name}' in vhost '${vhost}'`,
      );
    const wanted = { vhost, name, type: typeOf(type), durable, autoDelete, internal, arguments: table };
    const before = topology.exchange(vhost, name);
    if (before) checkEquivalent(channel, before, wanted);
    else {
      if (name.startsWith("amq."))
        throw new AmqpError("ACCESS_REFUSED", `exchange name '${name}' contains reserved prefix 'amq.*'`);
      // Dead letters move without a client, also to where the alternate exchange leads.
      if (alternate) needOnExchange(channel, ["add"], textOf(alternate)!);
      await topology.putExchange(wanted);
    }
    channel.answer(noWait, "exchange.declare-ok", {});
  },
  "exchange.delete": async (channel, { exchange: name, ifUnused, noWait }) => {
    const { connection, vhost } = channel;
    const { topology } = connection.door;
    refuseDefault(name);
    if (name.startsWith("amq."))
      throw new AmqpError(
        "ACCESS_REFUSED",
        `deletion of system exchange '${name}' in vhost '${vhost}' not allowed`,
      );
    needOnExchange(channel, ["add", "work"], name);
    await topology.fresh();
    const found = topology.exchange(vhost, name);
    if (found && ifUnused && found.bindings.all.size > 0)
      throw new AmqpError("PRECONDITION_FAILED", `exchange '${name}' in vhost '${vhost}' in use`);
    if (found) await topology.removeExchange(vhost, name);
    channel.answer(noWait, "exchange.delete-ok", {});
  },
  "exchange.bind": async (channel, { destination, source, routingKey, noWait, arguments: table }) => {
    const { connection } = channel;
    for (const name of [source, destination]) needOnExchange(channel, ["add", "work"], name);
    await connection.door.topology.fresh();
    const ends = { source, destination, to: "exchange", routingKey, arguments: table } as const;
    const binding = bindingOf(channel, ends);
    needExchange(channel, destination);
    await connection.door.topology.bind(binding);
    channel.answer(noWait, "exchange.bind-ok", {});
  },
  "exchange.unbind": async (channel, { destination, source, routingKey, noWait, arguments: table }) => {
    const { connection } = channel;
    needOnExchange(channel, ["add", "work"], destination);
    await connection.door.topology.fresh();
    const ends = { source, destination, to: "exchange", routingKey, arguments: table } as const;
    await connection.door.topology.unbind(bindingOf(channel, ends));
    channel.answer(noWait, "exchange.unbind-ok", {});
  },
};
