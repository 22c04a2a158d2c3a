// Starts a RabbitMQ node of its own: for the benchmarks, and for the tests that compare answers with it.

import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Service } from "../contender.ts";
import { freePorts, missingProgram, startProgram, startServer } from "./server.ts";

/** Debian's rabbitmq-server switches to its own user. The script behind it runs as the caller. */
const SCRIPTS = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/** Describes which program is missing. */
export function missingRabbit(): string | undefined {
  return missingProgram("rabbitmq-server") ?? missingProgram("epmd", "erlang-base");
}

/** Erlang's name service would stay as a daemon, so it is started and stopped here, on its own port. */
export async function serveRabbit(folder: string): Promise<Service> {
  const [port, namePort, nodePort] = (await freePorts(3)) as [number, number, number];
  const home = join(folder, "home");
  mkdirSync(home);
  const env = {
    HOME: home,
    // A node that is stopped while it starts would leave a dump in the current folder.
    ERL_CRASH_DUMP_BYTES: "0",
    ERL_EPMD_PORT: String(namePort),
    ERL_EPMD_ADDRESS: "127.0.0.1",
    RABBITMQ_NODENAME: `bench${port}@localhost`,
    RABBITMQ_NODE_IP_ADDRESS: "127.0.0.1",
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_DIST_PORT: String(nodePort),
    RABBITMQ_MNESIA_BASE: join(folder, "mnesia"),
    RABBITMQ_LOG_BASE: join(folder, "log"),
    RABBITMQ_CONFIG_FILE: join(folder, "rabbitmq"),
    RABBITMQ_ADVANCED_CONFIG_FILE: join(folder, "advanced"),
    RABBITMQ_CONF_ENV_FILE: join(folder, "rabbitmq-env.conf"),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, "enabled_plugins"),
    RABBITMQ_PID_FILE: join(folder, "pid"),
  };
  const stopNames = await startServer("epmd", ["-port", String(namePort)], namePort, env);
  try {
    const script = existsSync(SCRIPTS) ? SCRIPTS : "rabbitmq-server";
    const rabbit = await startProgram(script, [], port, env);
    return {
      address: `amqp://guest:guest@127.0.0.1:${port}`,
      group: rabbit.pid,
      async stop() {
        await rabbit.stop();
        await stopNames();
      },
    };
  } catch (error) {
    await stopNames();
    throw error;
  }
}
