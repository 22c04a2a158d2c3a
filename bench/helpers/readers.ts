// Many readers of the events of a server over HTTP, in one process.

import { once } from "node:events";
import { connect } from "node:net";
import { helperTask, say } from "../helper.ts";
import type { ReadersTask } from "../scenarios/readers.ts";

const { url, count, kind } = helperTask() as ReadersTask;
await Promise.all(Array.from({ length: count }, follow));
say("ready");

async function follow(): Promise<void> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  socket.write("GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n");
  await once(socket, "readable");
  if (kind === "reading") socket.resume();
  // The server disconnects clients that read nothing.
  socket.on("error", () => {});
}
