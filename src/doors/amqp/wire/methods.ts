/**
 * The methods of AMQP 0-9-1 as data: class, number, and fields in their order on the wire. decode.ts and encode.ts read
 * this table; nothing else knows the layout. Fields that the protocol reserves have no name.
 */

export type FieldType = "octet" | "short" | "long" | "longlong" | "bit" | "shortstr" | "longstr" | "table";

interface Layout {
  readonly [name: string]: FieldType;
}

/** `content`: a header frame and body frames follow. */
interface Definition {
  readonly id: readonly [classId: number, methodId: number];
  readonly fields: Layout;
  readonly content?: true;
}

/** The names of reserved fields begin with an underscore: they are skipped when read, and written as zero. */
export const METHODS = {
  "connection.start": {
    id: [10, 10],
    fields: {
      versionMajor: "octet",
      versionMinor: "octet",
      serverProperties: "table",
      mechanisms: "longstr",
      locales: "longstr",
    },
  },
  "connection.start-ok": {
    id: [10, 11],
    fields: { clientProperties: "table", mechanism: "shortstr", response: "longstr", locale: "shortstr" },
  },
  "connection.secure": { id: [10, 20], fields: { challenge: "longstr" } },
  "connection.secure-ok": { id: [10, 21], fields: { response: "longstr" } },
  "connection.tune": { id: [10, 30], fields: { channelMax: "short", frameMax: "long", heartbeat: "short" } },
  "connection.tune-ok": {
    id: [10, 31],
    fields: { channelMax: "short", frameMax: "long", heartbeat: "short" },
  },
  "connection.open": { id: [10, 40], fields: { vhost: "shortstr", _1: "shortstr", _2: "bit" } },
  "connection.open-ok": { id: [10, 41], fields: { _1: "shortstr" } },
  "connection.close": {
    id: [10, 50],
    fields: { code: "short", text: "shortstr", classId: "short", methodId: "short" },
  },
  "connection.close-ok": { id: [10, 51], fields: {} },
  "connection.blocked": { id: [10, 60], fields: { reason: "shortstr" } },
  "connection.unblocked": { id: [10, 61], fields: {} },
  "connection.update-secret": { id: [10, 70], fields: { secret: "longstr", reason: "shortstr" } },
  "connection.update-secret-ok": { id: [10, 71], fields: {} },

  "channel.open": { id: [20, 10], fields: { _1: "shortstr" } },
  "channel.open-ok": { id: [20, 11], fields: { _1: "longstr" } },
  "channel.flow": { id: [20, 20], fields: { active: "bit" } },
  "channel.flow-ok": { id: [20, 21], fields: { active: "bit" } },
  "channel.close": {
    id: [20, 40],
    fields: { code: "short", text: "shortstr", classId: "short", methodId: "short" },
  },
  "channel.close-ok": { id: [20, 41], fields: {} },

  "access.request": {
    id: [30, 10],
    fields: {
      realm: "shortstr",
      exclusive: "bit",
      passive: "bit",
      active: "bit",
      write: "bit",
      read: "bit",
    },
  },
  "access.request-ok": { id: [30, 11], fields: { ticket: "short" } },

  "exchange.declare": {
    id: [40, 10],
    fields: {
      _1: "short",
      exchange: "shortstr",
      type: "shortstr",
      passive: "bit",
      durable: "bit",
      autoDelete: "bit",
      internal: "bit",
      noWait: "bit",
      arguments: "table",
    },
  },
  "exchange.declare-ok": { id: [40, 11], fields: {} },
  "exchange.delete": {
    id: [40, 20],
    fields: { _1: "short", exchange: "shortstr", ifUnused: "bit", noWait: "bit" },
  },
  "exchange.delete-ok": { id: [40, 21], fields: {} },
  "exchange.bind": {
    id: [40, 30],
    fields: {
      _1: "short",
      destination: "shortstr",
      source: "shortstr",
      routingKey: "shortstr",
      noWait: "bit",
      arguments: "table",
    },
  },
  "exchange.bind-ok": { id: [40, 31], fields: {} },
  "exchange.unbind": {
    id: [40, 40],
    fields: {
      _1: "short",
      destination: "shortstr",
      source: "shortstr",
      routingKey: "shortstr",
      noWait: "bit",
      arguments: "table",
    },
  },
  "exchange.unbind-ok": { id: [40, 51], fields: {} },

  "queue.declare": {
    id: [50, 10],
    fields: {
      _1: "short",
      queue: "shortstr",
      passive: "bit",
      durable: "bit",
      exclusive: "bit",
      autoDelete: "bit",
      noWait: "bit",
      arguments: "table",
    },
  },
  "queue.declare-ok": {
    id: [50, 11],
    fields: { queue: "shortstr", messageCount: "long", consumerCount: "long" },
  },
  "queue.bind": {
    id: [50, 20],
    fields: {
      _1: "short",
      queue: "shortstr",
      exchange: "shortstr",
      routingKey: "shortstr",
      noWait: "bit",
      arguments: "table",
    },
  },
  "queue.bind-ok": { id: [50, 21], fields: {} },
  "queue.purge": { id: [50, 30], fields: { _1: "short", queue: "shortstr", noWait: "bit" } },
  "queue.purge-ok": { id: [50, 31], fields: { messageCount: "long" } },
  "queue.delete": {
    id: [50, 40],
    fields: { _1: "short", queue: "shortstr", ifUnused: "bit", ifEmpty: "bit", noWait: "bit" },
  },
  "queue.delete-ok": { id: [50, 41], fields: { messageCount: "long" } },
  "queue.unbind": {
    id: [50, 50],
    fields: {
      _1: "short",
      queue: "shortstr",
      exchange: "shortstr",
      routingKey: "shortstr",
      arguments: "table",
    },
  },
  "queue.unbind-ok": { id: [50, 51], fields: {} },

  "basic.qos": { id: [60, 10], fields: { prefetchSize: "long", prefetchCount: "short", global: "bit" } },
  "basic.qos-ok": { id: [60, 11], fields: {} },
  "basic.consume": {
    id: [60, 20],
    fields: {
      _1: "short",
      queue: "shortstr",
      consumerTag: "shortstr",
      noLocal: "bit",
      noAck: "bit",
      exclusive: "bit",
      noWait: "bit",
      arguments: "table",
    },
  },
  "basic.consume-ok": { id: [60, 21], fields: { consumerTag: "shortstr" } },
  "basic.cancel": { id: [60, 30], fields: { consumerTag: "shortstr", noWait: "bit" } },
  "basic.cancel-ok": { id: [60, 31], fields: { consumerTag: "shortstr" } },
  "basic.publish": {
    id: [60, 40],
    fields: { _1: "short", exchange: "shortstr", routingKey: "shortstr", mandatory: "bit", immediate: "bit" },
    content: true,
  },
  "basic.return": {
    id: [60, 50],
    fields: { code: "short", text: "shortstr", exchange: "shortstr", routingKey: "shortstr" },
    content: true,
  },
  "basic.deliver": {
    id: [60, 60],
    fields: {
      consumerTag: "shortstr",
      deliveryTag: "longlong",
      redelivered: "bit",
      exchange: "shortstr",
      routingKey: "shortstr",
    },
    content: true,
  },
  "basic.get": { id: [60, 70], fields: { _1: "short", queue: "shortstr", noAck: "bit" } },
  "basic.get-ok": {
    id: [60, 71],
    fields: {
      deliveryTag: "longlong",
      redelivered: "bit",
      exchange: "shortstr",
      routingKey: "shortstr",
      messageCount: "long",
    },
    content: true,
  },
  "basic.get-empty": { id: [60, 72], fields: { _1: "shortstr" } },
  "basic.ack": { id: [60, 80], fields: { deliveryTag: "longlong", multiple: "bit" } },
  "basic.reject": { id: [60, 90], fields: { deliveryTag: "longlong", requeue: "bit" } },
  "basic.recover-async": { id: [60, 100], fields: { requeue: "bit" } },
  "basic.recover": { id: [60, 110], fields: { requeue: "bit" } },
  "basic.recover-ok": { id: [60, 111], fields: {} },
  "basic.nack": { id: [60, 120], fields: { deliveryTag: "longlong", multiple: "bit", requeue: "bit" } },

  "confirm.select": { id: [85, 10], fields: { noWait: "bit" } },
  "confirm.select-ok": { id: [85, 11], fields: {} },
  "tx.select": { id: [90, 10], fields: {} },
  "tx.select-ok": { id: [90, 11], fields: {} },
  "tx.commit": { id: [90, 20], fields: {} },
  "tx.commit-ok": { id: [90, 21], fields: {} },
  "tx.rollback": { id: [90, 30], fields: {} },
  "tx.rollback-ok": { id: [90, 31], fields: {} },
} as const satisfies Record<string, Definition>;

export type MethodName = keyof typeof METHODS;

interface Values {
  octet: number;
  short: number;
  long: number;
  longlong: number;
  bit: boolean;
  shortstr: string;
  longstr: Buffer;
  /** The bytes on the wire, without their length. table.ts parses them when a field is needed. */
  table: Buffer;
}

type Named<Fields> = {
  -readonly [Name in keyof Fields as Name extends `_${string}` ? never : Name]: Fields[Name] extends FieldType
    ? Values[Fields[Name]]
    : never;
};

/** The fields of a method. */
export type Args<Name extends MethodName> = Named<(typeof METHODS)[Name]["fields"]>;

/** A method with its fields, as a union over all methods. */
export type Method = { [Name in MethodName]: { name: Name; args: Args<Name> } }[MethodName];

export interface Plan {
  name: MethodName;
  classId: number;
  methodId: number;
  fields: readonly (readonly [name: string, type: FieldType])[];
  hasContent: boolean;
}

function planOf(name: MethodName): Plan {
  const { id, fields, ...rest } = METHODS[name] as Definition;
  const entries = Object.entries(fields);
  return { name, classId: id[0], methodId: id[1], fields: entries, hasContent: "content" in rest };
}

const NAMES = Object.keys(METHODS) as MethodName[];
export const PLANS = Object.fromEntries(NAMES.map((name) => [name, planOf(name)])) as Record<
  MethodName,
  Plan
>;
const BY_ID = new Map(NAMES.map((name) => [(PLANS[name].classId << 16) | PLANS[name].methodId, PLANS[name]]));

export function planWith(classId: number, methodId: number): Plan | undefined {
  return BY_ID.get((classId << 16) | methodId);
}
