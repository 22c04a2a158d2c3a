import { type Table, text, yes } from "./wire/table.ts";

const CAPABILITIES = [
  "publisher_confirms",
  "exchange_exchange_bindings",
  "basic.nack",
  "consumer_cancel_notify",
  "connection.blocked",
  "consumer_priorities",
  "authentication_failure_close",
  "per_consumer_qos",
  "direct_reply_to",
];

/** Clients choose their behaviour by product and version: kombu sets its prefetch as RabbitMQ 3.3 and later want it. */
export function serverProperties(): Table {
  return [
    ["capabilities", { type: "F", value: CAPABILITIES.map((name) => [name, yes]) }],
    ["cluster_name", text("dibs")],
    ["copyright", text("the dibs authors")],
    ["information", text("dibs speaks AMQP 0-9-1 as RabbitMQ 3.10 does")],
    ["platform", text("dibs")],
    ["product", text("RabbitMQ")],
    ["version", text("3.10.8")],
  ];
}
