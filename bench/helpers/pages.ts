// Pages of the dashboard, as far as the server is concerned: streams of its live feed, in one process.

import { once } from "node:events";
import { connect } from "node:net";
import { helperTask, say } from "../helper.ts";
import type { PagesTask } from "../scenarios/dashboard.ts";

const { url, paths } = helperTask() as PagesTask;
await Promise.all(paths.map(follow));
say("ready");

async function follow(path: string): Promise<void> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`);
  await once(socket, "readable");
  socket.resume();
  socket.on("error", () => {});
}
