import type { Channel, Handlers } from "./channel.ts";
import { AmqpError } from "./wire/errors.ts";

/** Confirms and transactions: a channel has one of them, or none. */

function needTx({ mode }: Channel): void {
  if (mode !== "tx") throw new AmqpError("PRECONDITION_FAILED", "channel is not transactional");
}

export const TX_HANDLERS: Handlers = {
  "confirm.select": (channel, { noWait }) => {
    if (channel.mode === "tx")
      throw new AmqpError("PRECONDITION_FAILED", "cannot switch from tx to confirm mode");
    channel.mode = "confirm";
    channel.answer(noWait, "confirm.select-ok", {});
  },
  "tx.select": (channel) => {
    if (channel.mode === "confirm")
      throw new AmqpError("PRECONDITION_FAILED", "cannot switch from confirm to tx mode");
    channel.mode = "tx";
    channel.send("tx.select-ok", {});
  },
  "tx.commit": async (channel) => {
    needTx(channel);
    // Both are sent at the same moment, and so share a commit of the store.
    const published = channel.publisher.commit();
    channel.deliveries.commit();
    await published;
    channel.send("tx.commit-ok", {});
  },
  "tx.rollback": (channel) => {
    needTx(channel);
    channel.publisher.rollback();
    channel.deliveries.rollback();
    channel.send("tx.rollback-ok", {});
  },
};
