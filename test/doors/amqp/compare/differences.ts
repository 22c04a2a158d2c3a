// Where dibs answers otherwise than RabbitMQ: on purpose, with the reason and dibs's answer; or because dibs lacks it.
// docs/guides/rabbitmq.md lists the same cases.

import { readRecording } from "./recordings.ts";

interface Difference {
  why: string;
  /** What dibs answers last, instead of RabbitMQ's last line. */
  last: string;
}

const closes = (text: string, ids = "classId: 0, methodId: 0"): string =>
  `a/1 < connection.close {replyCode: ${text.split(" ")[0]}, replyText: "${text.slice(4)}", ${ids}}`;

const SAYS_WHY = "RabbitMQ drops the connection without a word; dibs says what it did not understand.";

const DIFFERENCES: Record<string, Difference> = {
  "open: an unknown virtual host": {
    why: "A virtual host is a namespace of queue names, which exists as soon as it is used.",
    last: '# {"method":"connection.open-ok","fields":{"reserved1":""}}',
  },
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
  return difference ? [...lines.slice(0, -1), difference.last] : lines;
}

/** What dibs lacks, by how the names of its scripts begin. */
const MISSING: Record<string, string> = {
  "declare: x-expires deletes": "dibs does not delete unused queues yet",
  "declare: x-queue-mode unknown": "dibs ignores x-queue-mode",
  "dead letter:": "dibs has no dead-letter exchanges yet",
  "delivery limit:": "dibs has no dead-letter exchanges yet",
  "max-length:": "dibs has no drop-head yet",
  "priority: with a maximal length": "dibs has no drop-head yet",
  "requeue: back to its place, quorum": "dibs sends no x-delivery-count yet",
  "redelivered: after a lost connection, quorum": "dibs sends no x-delivery-count yet",
  "recover: of a quorum queue": "dibs sends no x-delivery-count yet",
};

export function whyMissing(name: string): string | undefined {
  return Object.entries(MISSING).find(([start]) => name.startsWith(start))?.[1];
}
