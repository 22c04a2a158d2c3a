import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { startTimer } from "../../core/clock.ts";
import { Heart } from "../../engine/heart.ts";
import { systemClock } from "../../engine/system-clock.ts";
import { Link } from "./link.ts";
import type { PulseData, PulseReport, PulseRequest } from "./pulse.ts";
import { SignsOfLife } from "./signs-of-life.ts";
import { Reach } from "./reach.ts";

function serve(port: MessagePort, { link, tx, where, patience }: PulseData): void {
  const reach = new Reach({ connect: () => Link.open(link), tx, where, patience });
  const signs = new SignsOfLife((sessions) => {
    for (const session of sessions) heart.leave(session);
    port.postMessage({ lost: sessions } satisfies PulseReport);
  });
  const heart = new Heart(startTimer, async (sessions) => {
    const sentAt = systemClock.read().awake;
    try {
      const ran = await reach.run([{ verb: "beat", sessions }], null);
      signs.given(sessions, sentAt);
      port.postMessage({ ran } satisfies PulseReport);
      return true;
    } catch {
      // Whoever uses the store is told of its troubles by their own calls; a beat is simply made again.
      return false;
    }
  });
  port.on("message", (request: PulseRequest) => {
    if ("join" in request) {
      heart.join(request.join, request.lease);
      signs.expect(request.join, request.lease, request.sentAt);
    } else if ("leave" in request) {
      heart.leave(request.leave);
      signs.forget(request.leave);
    } else {
      heart.stop();
      signs.stop();
      void reach.close().then(() => port.close());
    }
  });
}

if (parentPort) serve(parentPort, workerData as PulseData);
