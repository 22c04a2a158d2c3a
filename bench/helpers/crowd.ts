// Many clients of a server in one process. They do nothing until they are asked.

import { WebSocket } from "ws";
import { open } from "../../src/index.ts";
import { PATH } from "../../src/protocol/messages.ts";
import { helperTask, say } from "../helper.ts";
import type { CrowdTask } from "../scenarios/connected.ts";

/** Connections that are opened at the same time. */
const AT_ONCE = 50;

const { url, count, kind } = helperTask() as CrowdTask;
for (let made = 0; made < count; made += AT_ONCE) {
  const some = Array.from({ length: Math.min(AT_ONCE, count - made) });
  await Promise.all(some.map(kind === "workers" ? startWorker : connect));
}
process.on("message", () => void handleOne().then(() => say("yes")));
say("ready");

async function startWorker(): Promise<void> {
  const dibs = await open(url);
  await dibs.queue("work").work(() => {}).ready;
}

/** The server checks every 5 s that a client answers: each check is answered, as a client does. */
async function connect(): Promise<void> {
  const socket = new WebSocket(url.replace("http", "ws") + PATH, { perMessageDeflate: false });
  const welcomed = new Promise<void>((resolve, reject) => {
    socket.once("message", () => resolve());
    socket.once("close", () => reject(new Error("The server has closed a connection.")));
    socket.once("error", reject);
  });
  socket.once("open", () => socket.send('{"hello":{"versions":[1],"client":"bench"}}'));
  await welcomed;
  socket.on("close", () => process.exit(1));
  setInterval(() => socket.send('{"ack":0}'), 5_000);
}

async function handleOne(): Promise<void> {
  await using dibs = await open(url);
  const queue = dibs.queue("work");
  if (kind === "connections") queue.work(() => {});
  await (await queue.add(1)).result({ timeout: "30s" });
}
