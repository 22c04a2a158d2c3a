import { type Host, OwnHost } from "./host.ts";
import type { Running } from "./launch.ts";
import type { FromLauncher, ToLauncher } from "./launcher-messages.ts";

/**
 * A process that starts the programs of a supervisor (node-host.ts starts it, where there is no Perl). To start a process, the kernel
 * copies the page tables of the one that starts it: from a supervisor of 100 MB that takes more than twice as long as
 * from here. So this file imports as little as possible.
 *
 * When the supervisor is gone, even by kill -9, the channel to it ends. The launcher then ends its programs and itself.
 */

// Without stacks: each end of a program creates an error when its group is found to be gone, and no code reads its
// stack.
Error.stackTraceLimit = 0;

const running = new Map<number, Running>();
let host: Host | undefined;
let passesErrors = false;

process.on("message", (message: ToLauncher) => {
  if (message.kind === "start") return start(message);
  if (message.kind !== "configure") return running.get(message.id)?.[message.kind]();
  passesErrors = message.passesErrors;
  host = new OwnHost({ ...message, env: process.env as Record<string, string> });
});

// A service manager sends TERM to all processes of a service: when this one ends is the supervisor's decision.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

process.on("disconnect", () => void host?.close().then(() => process.exit()));

function start({ id, env, input }: ToLauncher & { kind: "start" }): void {
  const onError = passesErrors ? (chunk: Buffer): void => send({ kind: "wrote", id, chunk }) : undefined;
  const program = host!.start({ env, input, onError });
  running.set(id, program);
  program.ended.then(
    (ended) => send({ kind: "ended", id, ended }),
    (error: unknown) => send({ kind: "notStarted", id, message: (error as Error).message }),
  );
}

function send(message: FromLauncher): void {
  if (message.kind !== "wrote") running.delete(message.id);
  // The supervisor may be gone. Then the message is not needed.
  if (process.connected) process.send!(message, undefined, undefined, () => {});
}
