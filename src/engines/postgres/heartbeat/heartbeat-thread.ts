// First: see the comment there.
import "../../../core/supported-node.ts";
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { startTimer } from "../../../core/clock.ts";
import type { Conflict } from "../../../core/commit.ts";
import { HeartbeatTimer } from "../../../engine/heartbeat-timer.ts";
import { systemClock } from "../../../engine/system-clock.ts";
import { Connection } from "../connection/connection.ts";
import { type PulseData, type PulseReport, type PulseRequest, STARTED } from "./heartbeats.ts";
import { HeartbeatAges } from "./heartbeat-ages.ts";
import { ReconnectingStore } from "../batch/reconnecting-store.ts";
import { Sender } from "../batch/sender.ts";

/** The thread that sends heartbeats on its own connection. HeartbeatThread (heartbeats.ts) starts it. */

function serve(port: MessagePort, { link, tx, where, patience }: PulseData): void {
  // Two beats may be due at once, and a slow one is followed by the next.
  const onConflict = (conflict: Conflict): void => port.postMessage(conflict satisfies PulseReport);
  const sender = new Sender(
    new ReconnectingStore({ connect: () => Connection.open(link), tx, where, patience, onConflict }),
  );
  const signs = new HeartbeatAges((sessions) => {
    for (const session of sessions) heart.leave(session);
    port.postMessage({ lost: sessions } satisfies PulseReport);
  });
  const beat = async (sessions: number[]): Promise<boolean> => {
    const sentAt = systemClock.read().awake;
    try {
      const ran = await sender.run([{ verb: "heartbeat", sessions }]);
      signs.given(sessions, sentAt);
      port.postMessage({ ran } satisfies PulseReport);
      return true;
    } catch {
      // Whoever uses the store is told of its troubles by their own calls; a beat is simply made again.
      return false;
    }
  };
  const heart = new HeartbeatTimer(startTimer, beat);
  const join = (session: number, lease: number, sentAt: number): void => {
    heart.join(session, lease);
    const now = systemClock.read().awake;
    // This thread was so long in starting that a beat is due: what came before, such as a claim, nobody told it of.
    const isLate = now - sentAt > lease / 3;
    signs.expect(session, lease, isLate ? now : sentAt);
    if (isLate) void beat([session]);
  };
  port.on("message", (request: PulseRequest) => {
    if ("join" in request) {
      join(request.join, request.lease, request.sentAt);
    } else if ("leave" in request) {
      heart.leave(request.leave);
      signs.forget(request.leave);
    } else {
      heart.stop();
      signs.stop();
      void sender.close().then(() => port.close());
    }
  });
  port.postMessage(STARTED);
}

if (parentPort) serve(parentPort, workerData as PulseData);
