import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { startTimer } from "../../core/clock.ts";
import { Heart } from "../../engine/heart.ts";
import { Link } from "./link.ts";
import type { PulseData, PulseReport, PulseRequest } from "./pulse.ts";
import { Reach } from "./reach.ts";

function serve(port: MessagePort, { link, tx, where, patience }: PulseData): void {
  const reach = new Reach({ connect: () => Link.open(link), tx, where, patience });
  const heart = new Heart(startTimer, async (sessions) => {
    try {
      const ran = await reach.run([{ verb: "beat", sessions }], null);
      port.postMessage({ sessions, ran } satisfies PulseReport);
      return true;
    } catch {
      // Whoever uses the store is told of its troubles by their own calls; a beat is simply made again.
      return false;
    }
  });
  port.on("message", (request: PulseRequest) => {
    if ("join" in request) heart.join(request.join, request.lease);
    else if ("leave" in request) heart.leave(request.leave);
    else {
      heart.stop();
      void reach.close().then(() => port.close());
    }
  });
}

if (parentPort) serve(parentPort, workerData as PulseData);
