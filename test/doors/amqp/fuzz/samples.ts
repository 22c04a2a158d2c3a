// Valid frames of every kind that a client sends, from the tests' own encoder, and ways to damage them.

import type { Random } from "../../../simulation/random.ts";
import { writeContent, writeMethod } from "../raw/frames.ts";
import type { Table } from "../raw/values.ts";

const TABLE: Table = {
  yes: "t:true",
  small: "b:-1",
  number: "I:70000",
  large: "l:5000000000",
  double: "d:2.25",
  decimal: "D:2,314",
  text: "S:text",
  bytes: "x:00ff",
  nothing: "V:",
  time: "T:1700000000",
  list: ["I:1", ["S:in", {}], { deep: { deeper: ["t:false"] } }],
};

const publish = (properties: Parameters<typeof writeContent>[1], body: string): Buffer =>
  Buffer.concat([
    writeMethod(1, "basic.publish", { exchange: "amq.topic", routingKey: "a.b", mandatory: true }),
    writeContent(1, properties, Buffer.from(body), 4_096),
  ]);

export const SAMPLES: readonly Buffer[] = [
  writeMethod(0, "connection.start-ok", {
    ...{ clientProperties: TABLE, mechanism: "PLAIN", response: "\0guest\0guest", locale: "en_US" },
  }),
  writeMethod(0, "connection.tune-ok", { channelMax: 2_047, frameMax: 131_072, heartbeat: 60 }),
  writeMethod(0, "connection.open", { virtualHost: "/" }),
  writeMethod(1, "channel.open"),
  writeMethod(1, "exchange.declare", { exchange: "x", type: "topic", durable: true, arguments: TABLE }),
  writeMethod(1, "exchange.bind", { source: "x", destination: "y", routingKey: "k", arguments: TABLE }),
  writeMethod(1, "queue.declare", { queue: "q", durable: true, arguments: { "x-message-ttl": "I:1000" } }),
  writeMethod(1, "queue.declare", { queue: "q", arguments: TABLE }),
  writeMethod(1, "queue.bind", {
    queue: "q",
    exchange: "amq.headers",
    arguments: { "x-match": "S:any", a: "I:1" },
  }),
  writeMethod(1, "basic.qos", { prefetchCount: 10 }),
  writeMethod(1, "basic.consume", { queue: "q", consumerTag: "c", arguments: { "x-priority": "I:5" } }),
  writeMethod(1, "basic.ack", { deliveryTag: 7, multiple: true }),
  writeMethod(1, "basic.nack", { deliveryTag: 7, requeue: true }),
  writeMethod(1, "confirm.select"),
  writeMethod(1, "tx.commit"),
  writeMethod(1, "channel.close", { replyCode: 200, replyText: "bye" }),
  publish({}, ""),
  publish({ contentType: "text/plain", deliveryMode: 2 }, "x".repeat(10_000)),
  publish(
    { headers: TABLE, priority: 3, expiration: "1000", replyTo: "r", timestamp: 1, userId: "guest" },
    "body",
  ),
  publish({ headers: { CC: ["S:a", "S:b"], BCC: ["S:c"] } }, "body"),
];

/** Damages a copy: bits, bytes, a part that is missing, twice there, or from another place. */
export function change(sample: Buffer, random: Random): Buffer {
  let bytes: Buffer = Buffer.from(sample);
  for (let times = random.between(1, 3); times > 0; times--) bytes = changeOnce(bytes, random);
  return bytes;
}

function changeOnce(bytes: Buffer, random: Random): Buffer {
  if (bytes.length === 0) return bytes;
  const at = random.between(0, bytes.length - 1);
  const to = random.between(at, Math.min(bytes.length, at + 40));
  switch (random.between(0, 5)) {
    case 0:
      return bytes.subarray(0, at);
    case 1:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(to)]);
    case 2:
      return Buffer.concat([bytes.subarray(0, to), bytes.subarray(at)]);
    case 3:
      bytes[at] = random.pick([0, 1, 0x7f, 0x80, 0xce, 0xff]);
      return bytes;
    default:
      bytes[at] = bytes[at]! ^ (1 << random.between(0, 7));
      return bytes;
  }
}
