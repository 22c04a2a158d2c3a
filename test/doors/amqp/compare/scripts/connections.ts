import {
  BODY,
  HEARTBEAT,
  METHOD,
  PROTOCOL_HEADER,
  writeContentHeader,
  writeFrame,
  writeMethod,
} from "../../raw/frames.ts";
import { CAPABILITIES } from "../../raw/connection.ts";
import type { Table } from "../../raw/values.ts";
import type { Script } from "../conversation.ts";

/** Both ids of a method, in two bytes each. */
const ids = (classId: number, methodId: number): Buffer => Buffer.from([0, classId, 0, methodId]);
const amqplain = (user: string, password: string): Buffer => {
  const entry = (name: string, value: string) =>
    Buffer.concat([
      Buffer.from([name.length]),
      Buffer.from(`${name}S`),
      Buffer.from([0, 0, 0, value.length]),
      Buffer.from(value),
    ]);
  return Buffer.concat([entry("LOGIN", user), entry("PASSWORD", password)]);
};

/** Bytes on a fresh channel to which RabbitMQ says nothing. */
function passes(what: string, ...bytes: Buffer[]): Script {
  return async (talk) => {
    const peer = await talk.connect();
    await peer.channel(1);
    peer.send(what, Buffer.concat(bytes));
    await peer.on(1).quiet();
  };
}

/** Bytes on a fresh channel that end the connection. */
function breaks(what: string, ...bytes: Buffer[]): Script {
  return async (talk) => {
    const peer = await talk.connect();
    await peer.channel(1);
    peer.send(what, Buffer.concat(bytes));
    await peer.on(1).take();
  };
}

function login(clientProperties: typeof CAPABILITIES, mechanism: string, response: string): Script {
  return async (talk) => {
    const peer = await talk.dial();
    peer.send("protocol header", PROTOCOL_HEADER);
    await peer.raw.take(0);
    peer.raw.method(0, "connection.start-ok", { clientProperties, mechanism, response, locale: "en_US" });
    await peer.on(0).take();
  };
}

/** Everything up to tune-ok, then what the case sends. */
function tuned(fields: { [name: string]: number }): Script {
  return async (talk) => {
    const peer = await talk.dial();
    peer.send("protocol header", PROTOCOL_HEADER);
    await peer.raw.take(0);
    const control = peer.on(0);
    peer.raw.method(0, "connection.start-ok", {
      ...{ clientProperties: CAPABILITIES, mechanism: "PLAIN", response: "\0guest\0guest", locale: "en_US" },
    });
    await control.take();
    control.send("connection.tune-ok", fields);
    control.send("connection.open", { virtualHost: "/" });
    await control.take();
  };
}

export const connections: Record<string, Script> = {
  "protocol header: another version": async (talk) => {
    const peer = await talk.dial();
    peer.send("AMQP 1.0", Buffer.from([0x41, 0x4d, 0x51, 0x50, 3, 1, 0, 0]));
    await peer.closed();
  },
  "protocol header: AMQP 0-10": async (talk) => {
    const peer = await talk.dial();
    peer.send("AMQP 0-10", Buffer.from([0x41, 0x4d, 0x51, 0x50, 1, 1, 0, 10]));
    await peer.closed();
  },
  "protocol header: HTTP": async (talk) => {
    const peer = await talk.dial();
    peer.send("GET", Buffer.from("GET / HTTP/1.1\r\n\r\n"));
    await peer.closed();
  },
  "login: PLAIN": login(CAPABILITIES, "PLAIN", "\0guest\0guest"),
  "login: AMQPLAIN": login(CAPABILITIES, "AMQPLAIN", amqplain("guest", "guest").toString("latin1")),
  "login: a wrong password": login(CAPABILITIES, "PLAIN", "\0guest\0wrong"),
  "login: a wrong password, AMQPLAIN": login(
    CAPABILITIES,
    "AMQPLAIN",
    amqplain("guest", "wrong").toString("latin1"),
  ),
  "login: a wrong password, client without authentication_failure_close": login(
    {},
    "PLAIN",
    "\0guest\0wrong",
  ),
  "login: an unknown mechanism": login(CAPABILITIES, "EXTERNAL", ""),
  "login: PLAIN without separators": login(CAPABILITIES, "PLAIN", "guest"),
  "login: AMQPLAIN without a table": login(CAPABILITIES, "AMQPLAIN", "guest"),
  "open: an unknown virtual host": async (talk) => {
    const peer = await talk.dial();
    const answer = await peer.raw.handshake({ virtualHost: "nowhere" });
    talk.note(JSON.stringify(answer));
  },
  "tune: what the server proposed": tuned({ channelMax: 2_047, frameMax: 131_072, heartbeat: 60 }),
  "tune: a frame size of 0": tuned({ channelMax: 10, frameMax: 0, heartbeat: 0 }),
  "tune: 0 channels": tuned({ channelMax: 0, frameMax: 131_072, heartbeat: 0 }),
  "tune: a frame size below 4096": tuned({ channelMax: 10, frameMax: 1_000, heartbeat: 0 }),
  "tune: a frame size above the server's": tuned({ channelMax: 10, frameMax: 1_000_000, heartbeat: 0 }),
  "tune: more channels than the server's": tuned({ channelMax: 60_000, frameMax: 131_072, heartbeat: 0 }),
  "tune: fewer channels hold": async (talk) => {
    const peer = await talk.connect({ channelMax: 2 });
    await peer.channel(1);
    await peer.channel(2);
    await peer.on(3).call("channel.open");
  },
  "channel: a number above the agreed most": async (talk) => {
    const peer = await talk.connect({ channelMax: 5 });
    await peer.on(6).call("channel.open");
  },
  "channel: a number above the server's most": async (talk) => {
    const peer = await talk.connect();
    await peer.on(2_048).call("channel.open");
  },
  "start: a method before the handshake": async (talk) => {
    const peer = await talk.dial();
    peer.send("protocol header", PROTOCOL_HEADER);
    await peer.raw.take(0);
    await peer.on(0).call("connection.open", { virtualHost: "/" });
  },
  "close: by the client": async (talk) => {
    const peer = await talk.connect();
    await peer.on(0).call("connection.close", { replyCode: 200, replyText: "bye" });
  },
  "start: what the server offers": async (talk) => {
    const peer = await talk.dial();
    peer.send("protocol header", PROTOCOL_HEADER);
    const { fields } = await peer.raw.take(0);
    const { serverProperties, mechanisms, ...rest } = fields;
    talk.note(JSON.stringify(rest));
    // RabbitMQ lists its mechanisms in no fixed order: it differs from start to start.
    talk.note((mechanisms as string).split(" ").sort().join(" "));
    const { capabilities } = serverProperties as Table;
    talk.note(
      Object.keys(capabilities as Table)
        .sort()
        .join(" "),
    );
  },
  "update-secret: is answered": async (talk) => {
    const peer = await talk.connect();
    await peer.on(0).call("connection.update-secret", { newSecret: "guest", reason: "renewed" });
  },
  "channel: open twice": async (talk) => {
    const peer = await talk.connect();
    await peer.channel(1);
    await peer.on(1).call("channel.open");
  },
  "channel: a method on a channel that is not open": async (talk) => {
    const peer = await talk.connect();
    await peer.on(3).call("queue.declare", { queue: "o.q" });
  },
  "channel: open on channel 0": async (talk) => {
    const peer = await talk.connect();
    await peer.on(0).call("channel.open");
  },
  "channel: close, then open again": async (talk) => {
    const peer = await talk.connect();
    const channel = await peer.channel(1);
    await channel.call("channel.close", { replyCode: 200 });
    await channel.call("channel.open");
  },
  "channel: after an error, open again": async (talk) => {
    const peer = await talk.connect();
    const channel = await peer.channel(1);
    await channel.call("queue.declare", { queue: "o.nothing", passive: true });
    await channel.call("channel.open");
    await channel.call("queue.declare", { queue: "o.nothing", exclusive: true });
  },
  "channel: what is sent after an error is ignored": async (talk) => {
    const peer = await talk.connect();
    const channel = await peer.channel(1);
    channel.send("queue.declare", { queue: "o.nothing2", passive: true });
    channel.send("queue.declare", { queue: "o.after" });
    await channel.take();
    const next = await peer.channel(2);
    await next.call("queue.declare", { queue: "o.after", passive: true });
  },
  "frame: an unknown type": breaks("type 9", writeFrame(9, 1, Buffer.from("x"))),
  "frame: without its end mark": breaks("end 0", writeFrame(METHOD, 1, ids(20, 10), 0)),
  "frame: larger than agreed": async (talk) => {
    const peer = await talk.connect({ frameMax: 4_096 });
    await peer.channel(1);
    peer.send("5000 bytes", writeFrame(BODY, 1, Buffer.alloc(5_000)));
    await peer.on(1).take();
  },
  "frame: as large as agreed": async (talk) => {
    const peer = await talk.connect({ frameMax: 4_096 });
    const channel = await peer.channel(1);
    await channel.call("queue.declare", { queue: "o.exact" });
    channel.send("basic.publish", { routingKey: "o.exact" });
    peer.send("header", writeContentHeader(1, {}, 4_088));
    peer.send("4088 bytes", writeFrame(BODY, 1, Buffer.alloc(4_088, "x")));
    await channel.call("basic.get", { queue: "o.exact" });
  },
  "frame: a heartbeat on channel 1": breaks("heartbeat", writeFrame(HEARTBEAT, 1, Buffer.alloc(0))),
  "frame: a heartbeat with a payload": breaks(
    "heartbeat",
    writeFrame(HEARTBEAT, 0, Buffer.from("x")),
    writeMethod(1, "channel.flow", { active: true }),
  ),
  "frame: a body without a method": breaks("body", writeFrame(BODY, 1, Buffer.from("x"))),
  "frame: a header without a method": breaks("header", writeContentHeader(1, {}, 1)),
  "frame: a method between publish and its header": breaks(
    "publish, qos",
    writeMethod(1, "basic.publish", { routingKey: "o.q" }),
    writeMethod(1, "basic.qos", {}),
  ),
  "frame: a body instead of a header": breaks(
    "publish, body",
    writeMethod(1, "basic.publish", { routingKey: "o.q" }),
    writeFrame(BODY, 1, Buffer.from("x")),
  ),
  "frame: more body than announced": passes(
    "publish, header of 1, body of 2",
    writeMethod(1, "basic.publish", { routingKey: "o.q" }),
    writeContentHeader(1, {}, 1),
    writeFrame(BODY, 1, Buffer.from("xx")),
  ),
  "frame: a header of another class": breaks(
    "publish, header of class 50",
    writeMethod(1, "basic.publish", { routingKey: "o.q" }),
    writeContentHeader(1, {}, 1, 50),
  ),
  "frame: a body that is announced too large": passes(
    "publish, header of 1 TB",
    writeMethod(1, "basic.publish", { routingKey: "o.q" }),
    writeContentHeader(1, {}, 1_000_000_000_000),
  ),
  "method: an unknown class": breaks("class 99", writeFrame(METHOD, 1, ids(99, 1))),
  "method: an unknown method": breaks("method 50,99", writeFrame(METHOD, 1, ids(50, 99))),
  "method: cut off": breaks(
    "queue.declare",
    writeFrame(METHOD, 1, Buffer.concat([ids(50, 10), Buffer.from([0, 0, 9, 65])])),
  ),
  "method: with bytes behind": breaks(
    "channel.flow",
    writeFrame(METHOD, 1, Buffer.concat([ids(20, 20), Buffer.from([1, 1, 1])])),
  ),
  "method: one that only a server sends": breaks(
    "queue.declare-ok",
    writeMethod(1, "queue.declare-ok", { queue: "q" }),
  ),
  "method: basic.deliver from a client": breaks(
    "basic.deliver",
    writeMethod(1, "basic.deliver", { consumerTag: "c" }),
    writeContentHeader(1, {}, 0),
  ),
  "method: of the class access": breaks(
    "access.request",
    writeMethod(1, "access.request", { realm: "/data" }),
  ),
  "method: connection.start-ok again": async (talk) => {
    const peer = await talk.connect();
    await peer
      .on(0)
      .call("connection.start-ok", { mechanism: "PLAIN", response: "\0guest\0guest", locale: "en_US" });
  },
  "method: a table that is cut off": breaks(
    "queue.declare",
    writeFrame(METHOD, 1, Buffer.concat([ids(50, 10), Buffer.from([0, 0, 1, 65, 0, 0, 0, 0, 99, 1, 65])])),
  ),
  "method: a table with an unknown type": breaks(
    "queue.declare",
    writeFrame(
      METHOD,
      1,
      Buffer.concat([ids(50, 10), Buffer.from([0, 0, 1, 65, 0, 0, 0, 0, 4, 1, 65, 63, 0])]),
    ),
  ),
  "heartbeats: the server sends them, and misses those of the client": async (talk) => {
    const peer = await talk.connect({ heartbeat: 1 });
    const began = performance.now();
    await peer.closed();
    const seconds = (performance.now() - began) / 1_000;
    talk.note(`closed after ${seconds > 1.4 && seconds < 5 ? "2 to 4" : seconds.toFixed(1)} intervals`);
    talk.note(`the server sent ${peer.raw.heartbeats > 0 ? "heartbeats" : "none"}`);
  },
};
