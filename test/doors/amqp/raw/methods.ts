// The methods of AMQP 0-9-1 as a table, for the raw test client. It is written apart from the table of the door, so
// that an error in one of them shows.

/** `class,method name field:type …`. Types: o octet, s short, l long, L long long, b bit, ss short string, ls long string,
 * t table. */
const LINES = `
10,10 connection.start versionMajor:o versionMinor:o serverProperties:t mechanisms:ls locales:ls
10,11 connection.start-ok clientProperties:t mechanism:ss response:ls locale:ss
10,20 connection.secure challenge:ls
10,21 connection.secure-ok response:ls
10,30 connection.tune channelMax:s frameMax:l heartbeat:s
10,31 connection.tune-ok channelMax:s frameMax:l heartbeat:s
10,40 connection.open virtualHost:ss reserved1:ss reserved2:b
10,41 connection.open-ok reserved1:ss
10,50 connection.close replyCode:s replyText:ss classId:s methodId:s
10,51 connection.close-ok
10,60 connection.blocked reason:ss
10,61 connection.unblocked
10,70 connection.update-secret newSecret:ls reason:ss
10,71 connection.update-secret-ok
20,10 channel.open reserved1:ss
20,11 channel.open-ok reserved1:ls
20,20 channel.flow active:b
20,21 channel.flow-ok active:b
20,40 channel.close replyCode:s replyText:ss classId:s methodId:s
20,41 channel.close-ok
30,10 access.request realm:ss exclusive:b passive:b active:b write:b read:b
30,11 access.request-ok ticket:s
40,10 exchange.declare reserved1:s exchange:ss type:ss passive:b durable:b autoDelete:b internal:b nowait:b arguments:t
40,11 exchange.declare-ok
40,20 exchange.delete reserved1:s exchange:ss ifUnused:b nowait:b
40,21 exchange.delete-ok
40,30 exchange.bind reserved1:s destination:ss source:ss routingKey:ss nowait:b arguments:t
40,31 exchange.bind-ok
40,40 exchange.unbind reserved1:s destination:ss source:ss routingKey:ss nowait:b arguments:t
40,51 exchange.unbind-ok
50,10 queue.declare reserved1:s queue:ss passive:b durable:b exclusive:b autoDelete:b nowait:b arguments:t
50,11 queue.declare-ok queue:ss messageCount:l consumerCount:l
50,20 queue.bind reserved1:s queue:ss exchange:ss routingKey:ss nowait:b arguments:t
50,21 queue.bind-ok
50,30 queue.purge reserved1:s queue:ss nowait:b
50,31 queue.purge-ok messageCount:l
50,40 queue.delete reserved1:s queue:ss ifUnused:b ifEmpty:b nowait:b
50,41 queue.delete-ok messageCount:l
50,50 queue.unbind reserved1:s queue:ss exchange:ss routingKey:ss arguments:t
50,51 queue.unbind-ok
60,10 basic.qos prefetchSize:l prefetchCount:s global:b
60,11 basic.qos-ok
60,20 basic.consume reserved1:s queue:ss consumerTag:ss noLocal:b noAck:b exclusive:b nowait:b arguments:t
60,21 basic.consume-ok consumerTag:ss
60,30 basic.cancel consumerTag:ss nowait:b
60,31 basic.cancel-ok consumerTag:ss
60,40 basic.publish reserved1:s exchange:ss routingKey:ss mandatory:b immediate:b
60,50 basic.return replyCode:s replyText:ss exchange:ss routingKey:ss
60,60 basic.deliver consumerTag:ss deliveryTag:L redelivered:b exchange:ss routingKey:ss
60,70 basic.get reserved1:s queue:ss noAck:b
60,71 basic.get-ok deliveryTag:L redelivered:b exchange:ss routingKey:ss messageCount:l
60,72 basic.get-empty reserved1:ss
60,80 basic.ack deliveryTag:L multiple:b
60,90 basic.reject deliveryTag:L requeue:b
60,100 basic.recover-async requeue:b
60,110 basic.recover requeue:b
60,111 basic.recover-ok
60,120 basic.nack deliveryTag:L multiple:b requeue:b
85,10 confirm.select nowait:b
85,11 confirm.select-ok
90,10 tx.select
90,11 tx.select-ok
90,20 tx.commit
90,21 tx.commit-ok
90,30 tx.rollback
90,31 tx.rollback-ok`;

export type FieldType = "o" | "s" | "l" | "L" | "b" | "ss" | "ls" | "t";

export interface Field {
  name: string;
  type: FieldType;
}

export interface Method {
  classId: number;
  methodId: number;
  name: string;
  fields: Field[];
}

const METHODS: Method[] = LINES.trim().split("\n").map(parse);

function parse(line: string): Method {
  const [ids, name, ...fields] = line.split(" ") as [string, string, ...string[]];
  const [classId, methodId] = ids.split(",").map(Number) as [number, number];
  return { classId, methodId, name, fields: fields.map(parseField) };
}

function parseField(text: string): Field {
  const [name, type] = text.split(":") as [string, FieldType];
  return { name, type };
}

const byName = new Map(METHODS.map((method) => [method.name, method]));
const byIds = new Map(METHODS.map((method) => [`${method.classId},${method.methodId}`, method]));

export function methodNamed(name: string): Method {
  const method = byName.get(name);
  if (!method) throw new Error(`AMQP 0-9-1 has no method ${name}.`);
  return method;
}

export function methodWithIds(classId: number, methodId: number): Method {
  const method = byIds.get(`${classId},${methodId}`);
  if (!method) throw new Error(`The server sent the unknown method ${classId},${methodId}.`);
  return method;
}

/** Methods that a content header and a body follow. */
export const WITH_CONTENT = new Set(["basic.publish", "basic.return", "basic.deliver", "basic.get-ok"]);

/** The properties of a message, in the order of their flags from bit 15 down. */
export const PROPERTIES: Field[] = (
  "contentType:ss contentEncoding:ss headers:t deliveryMode:o priority:o correlationId:ss replyTo:ss expiration:ss " +
  "messageId:ss timestamp:L type:ss userId:ss appId:ss clusterId:ss"
)
  .split(" ")
  .map(parseField);
