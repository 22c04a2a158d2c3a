import { Reject } from "../core/handler/control.ts";
import type { Role } from "./role.ts";
import { nap } from "./nap.ts";
import { emails, MAIL_CONNECTIONS } from "./shop.ts";

/** A process that sends emails. Some emails fail once, some can never be sent, and now and then one ends the process. */
export const sendMail: Role = (dibs, { name }) => {
  const worker = dibs.queue(emails).work(
    async (task) => {
      const { to, ms, trouble } = task.data;
      await nap(task, ms);
      if (trouble === "no-mailbox") throw new Reject(`550 mailbox unavailable: ${to}`);
      if (trouble === "greylisted" && task.attempt === 1)
        throw new Error(`451 greylisted, try again later: ${to.split("@")[1]}`);
      // As if memory ran out. Another worker gets the task, and succeeds.
      if (trouble === "huge" && task.attempt === 1) process.kill(process.pid, "SIGKILL");
      return { sent: true, ms };
    },
    { name, concurrency: MAIL_CONNECTIONS },
  );
  return { ready: worker.ready, stop: () => worker.stop({ timeout: "2s" }) };
};
