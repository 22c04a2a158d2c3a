// Where dibs answers otherwise than RabbitMQ: on purpose, with the reason and dibs's answer.
// docs/guides/rabbitmq.md lists the same cases.

import { readRecording } from "./recordings.ts";

interface Difference {
  why: string;
  /** What dibs answers last, instead of RabbitMQ's last line; or what it answers to the whole script. */
  last: string | ((recorded: string[]) => string[]);
}

const closes = (text: string, ids = "classId: 0, methodId: 0"): string =>
  `a/1 < connection.close {replyCode: ${text.split(" ")[0]}, replyText: "${text.slice(4)}", ${ids}}`;

const SAYS_WHY = "RabbitMQ drops the connection without a word; dibs says what it did not understand.";

const DIFFERENCES: Record<string, Difference> = {
  "frame: more body than announced": {
    why: "RabbitMQ takes the message; dibs refuses it, because header and body contradict each other.",
    last: closes("501 FRAME_ERROR - the body of a message is longer than its header says"),
  },
  "frame: a body that is announced too large": {
    why: "RabbitMQ counts the body when it has all of it; dibs refuses it before it takes any memory.",
    last: closes(
      "406 PRECONDITION_FAILED - message size 1000000000000 is larger than configured max size 16777216",
    ),
  },
  "reply-to: declare of the pseudo-queue": {
    why: "Only a passive declare of the pseudo-queue is answered as if it were a queue: no client declares it.",
    last: `a/1 < channel.close {replyCode: 403, replyText: "ACCESS_REFUSED - queue name 'amq.rabbitmq.reply-to' contains reserved prefix 'amq.*'", classId: 50, methodId: 10}`,
  },
  "qos: per consumer": {
    why: "Of two consumers that became free at once, dibs serves the one that has waited longest.",
    last: (lines) => [...lines.slice(0, -1), lines.at(-1)!.replace('"c"', '"d"')],
  },
  "requeue: back to its place, quorum": {
    why: "A quorum queue of RabbitMQ puts a returned message behind the others; in dibs it keeps its place.",
    last: (lines) => {
      const counts = [2, 3, 2, 1, 0];
      const got = [1, 2, 1, 0, 0].map((before, index) =>
        lines[4]!
          .replace("deliveryTag: 1", `deliveryTag: ${index + 3}`)
          .replace("redelivered: false", `redelivered: ${before > 0}`)
          .replace("messageCount: 3", `messageCount: ${counts[index]}`)
          .replace("l:0", `l:${before}`)
          .replace(/"1"$/, `"${[1, 1, 2, 3, 4][index]}"`),
      );
      return lines.map((line, index) => (index > 8 && line.includes("get-ok") ? got.shift()! : line));
    },
  },
  "dead letter: a message behind one that lives longer waits for it": {
    why: "RabbitMQ expires messages only at the head of a queue; in dibs each expires at its time.",
    last: (lines) =>
      lines.map((line) => line.replace("messageCount: 2, consumerCount", "messageCount: 1, consumerCount")),
  },
  "dead letter: CC counts again, and BCC": {
    why: "The BCC header is removed when a message is stored, so a dead letter does not go there again.",
    last: "a/1 < basic.get-empty",
  },
  "max-length: counts only ready messages": {
    why: "A full queue of dibs takes a returned message back; RabbitMQ drops it.",
    last: (lines) => [
      ...lines.slice(0, -3),
      lines[4]!
        .replace("deliveryTag: 1, redelivered: false", "deliveryTag: 2, redelivered: true")
        .replace("messageCount: 0", "messageCount: 1"),
      lines.at(-2)!,
      lines.at(-3)!.replace("deliveryTag: 2", "deliveryTag: 3"),
    ],
  },
  "priority: with a maximal length, the lowest is dropped": {
    why: "RabbitMQ drops the message that would be delivered next, of the highest priority; dibs one of the lowest.",
    last: (lines) =>
      lines.map((line) =>
        line.includes("get-ok")
          ? line
              .replace('{priority: 3} "3"', '{priority: 5} "5"')
              .replace('{priority: 1} "1"', '{priority: 3} "3"')
          : line,
      ),
  },
  "method: an unknown class": { why: SAYS_WHY, last: closes("540 NOT_IMPLEMENTED - unknown method 99.1") },
  "method: an unknown method": { why: SAYS_WHY, last: closes("540 NOT_IMPLEMENTED - unknown method 50.99") },
  "method: a table with an unknown type": {
    why: SAYS_WHY,
    last: closes(String.raw`502 SYNTAX_ERROR - unknown field type \"?\"`, "classId: 50, methodId: 10"),
  },
};

/** What dibs must answer to a script: what RabbitMQ answered, except for the listed differences. */
export function expectedOf(theme: string, name: string): string[] {
  const lines = readRecording(theme)[name];
  if (!lines) throw new Error(`"${name}" is not recorded: node test/doors/amqp/compare/record.ts ${theme}`);
  const difference = DIFFERENCES[name];
  if (!difference) return lines;
  const { last } = difference;
  return typeof last === "string" ? [...lines.slice(0, -1), last] : last(lines);
}
