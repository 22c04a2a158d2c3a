// A direct exchange: each queue gets the messages with the keys that it is bound with.

import { connection } from "./connect.ts";

const channel = await connection.createConfirmChannel();
await channel.assertExchange("alarms", "direct");
const wanted = { everything: ["info", "warning", "error"], errors: ["error"] };
for (const [queue, severities] of Object.entries(wanted)) {
  await channel.assertQueue(queue, { exclusive: true });
  for (const severity of severities) await channel.bindQueue(queue, "alarms", severity);
}
for (const severity of ["info", "error", "warning"])
  channel.publish("alarms", severity, Buffer.from(severity));
await channel.waitForConfirms();
for (const queue of Object.keys(wanted))
  console.log(`${queue}: ${(await channel.checkQueue(queue)).messageCount}`);
await connection.close();
