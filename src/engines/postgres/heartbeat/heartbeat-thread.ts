// First: see the comment there.
import "../../../core/process/supported-node.ts";
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { startTimer } from "../../../core/time/clock.ts";
import type { Conflict } from "../../../core/commit.ts";
import { HeartbeatTimer } from "../../../engine/heartbeat-timer.ts";
import { systemClock } from "../../../engine/system-clock.ts";
import { Connection } from "../connection/connection.ts";
import { AskedPassword } from "../connection/password.ts";
import {
  ASK_PASSWORD,
  type HeartbeatData,
  type HeartbeatReport,
  type HeartbeatRequest,
  STARTED,
} from "./heartbeats.ts";
import { HeartbeatAges } from "./heartbeat-ages.ts";
import { ReconnectingStore } from "../batch/reconnecting-store.ts";
import { Sender } from "../batch/sender.ts";

/** The thread that sends heartbeats on its own connection. HeartbeatThread (heartbeats.ts) starts it. */

function serve(port: MessagePort, { link, tx, where, patience }: HeartbeatData): void {
  const onConflict = (conflict: Conflict): void => port.postMessage(conflict satisfies HeartbeatReport);
  let password: AskedPassword | undefined;
  const connect = (): Promise<Connection> => Connection.open({ ...link, password });
  const sender = new Sender(new ReconnectingStore({ connect, tx, where, patience, onConflict }));
  const ages = new HeartbeatAges((sessions) => {
    for (const session of sessions) timer.leave(session);
    port.postMessage({ lost: sessions } satisfies HeartbeatReport);
  });
  const send = async (sessions: number[]): Promise<boolean> => {
    const sentAt = systemClock.read().awake;
    try {
      const result = await sender.run([{ verb: "heartbeat", sessions }]);
      ages.noteSent(sessions, sentAt);
      port.postMessage({ result } satisfies HeartbeatReport);
      return true;
    } catch {
      // The calls of users report what is wrong with the store. A heartbeat is sent again.
      return false;
    }
  };
  const timer = new HeartbeatTimer(startTimer, send);
  const join = (session: number, lease: number, sentAt: number): void => {
    timer.join(session, lease);
    const now = systemClock.read().awake;
    // This thread took so long to start that a heartbeat is due. It does not know of others, such as those of claims.
    const isLate = now - sentAt > lease / 3;
    ages.expect(session, lease, isLate ? now : sentAt);
    if (isLate) void send([session]);
  };
  port.on("message", (request: HeartbeatRequest) => {
    if ("join" in request) {
      join(request.join, request.lease, request.sentAt);
    } else if ("leave" in request) {
      timer.leave(request.leave);
      ages.forget(request.leave);
    } else if ("password" in request) {
      if (password) password.answer(request.password);
      else password = new AskedPassword(request.password!, () => port.postMessage(ASK_PASSWORD));
    } else {
      timer.stop();
      ages.stop();
      void sender.close().then(() => port.close());
    }
  });
  port.postMessage(STARTED);
}

if (parentPort) serve(parentPort, workerData as HeartbeatData);
