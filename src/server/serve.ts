import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { createSecureContext } from "node:tls";
import { pino } from "pino";
import { openPort } from "../api/open.ts";
import { tracePort } from "../api/trace.ts";
import { kindOf, showAddress, withoutSecrets } from "../core/process/address.ts";
import type { Measured } from "../core/commit.ts";
import { invalid } from "../core/errors/errors.ts";
import type { Logger } from "../core/process/logger.ts";
import type { Port } from "../core/port.ts";
import { systemClock } from "../engine/system-clock.ts";
import { parseAlerts, type AlertOptions, type ResolvedAlerts } from "../pools/alert-rules.ts";
import { Alerts } from "../pools/alerts.ts";
import type { Me } from "../dashboard/contract.ts";
import { Dashboard } from "../dashboard/dashboard.ts";
import { DemoControl, type RunningDemo } from "../dashboard/demo-control.ts";
import { Access } from "./access.ts";
import { boundHeap } from "./bound-heap.ts";
import type { Config } from "./config.ts";
import { Server } from "./server.ts";
import type { ServerOptions } from "./options.ts";
import { Tokens, tokensPathOf } from "./tokens.ts";
import { webLoader } from "./web-folder.ts";
import { VERSION } from "../core/process/package-version.ts";

export interface Serving {
  /** Lets the dashboard change the pace of a demo that was started next to the server. */
  steerDemo: (demo: RunningDemo) => void;
  url: string;
  /** Where AMQP clients connect; undefined without that door. */
  amqpPort: number | undefined;
  asksForTokens: boolean;
  /** Graceful: not ready, hands out nothing, clients finish, the rest is released, closed. */
  stop(): Promise<void>;
}

/** Starts a server from its configuration: the store, its access rules, the address. `dibs serve` calls it. */
export async function serve(config: Config): Promise<Serving> {
  if (kindOf(config.url) === "server")
    throw invalid(
      `--url names the store to serve, a file or postgres://…; ${showAddress(config.url)} is a server itself.`,
    );
  const log = pino({ level: config.logLevel, base: { name: "dibs" } }, pino.destination(2));
  const logger: Logger = {
    warn: (message, details) => log.warn(details ?? {}, message),
    error: (message, details) => log.error(details ?? {}, message),
  };
  const access = new Access(new Tokens(tokensPathOf(config)), { letAnyoneIn: config.letAnyoneIn });
  // Read before anything is opened, so that an unreadable token file is reported now, not to the first client.
  const { asksForTokens } = access;
  const alertRules = config.alerts === null ? null : readAlerts(config.alerts);
  let measure: (measured: Measured) => void = () => {};
  const options = {
    logger,
    ...(config.schema !== null && { schema: config.schema }),
    ...(config.pooler && { listen: false }),
  };
  const store = tracePort(
    await openPort(config.url, options, { measure: (measured) => measure(measured) }),
    "SERVER",
  );
  // The audit log does not follow the log level: otherwise it could be silenced by accident.
  const trail = log.child({}, { level: config.logLevel === "silent" ? "silent" : "info" });
  const dashboard = createDashboard(config, store, logger, () => server.url);
  const server: Server = await start(config, store, access, {
    ...{ logger, dashboard, web: webLoader() },
    audit: (action) => {
      dashboard.audit.add({ at: Math.floor(store.clock.read().wall), ...action });
      trail.info(
        { audit: action },
        action.refused
          ? "a declaration differs from what is stored, and was not applied"
          : "an administrator's action, or a declaration",
      );
    },
    onMeasured: (listener) => (measure = listener),
  });
  const amqp = server.amqpPort === undefined ? {} : { amqpPort: server.amqpPort };
  log.info({ url: server.url, ...amqp, store: withoutSecrets(config.url) }, "listening");
  if (config.letAnyoneIn)
    logger.warn(
      `--let-anyone-in: everyone who reaches ${server.url} may read and change everything, with or without a token.`,
    );
  boundHeap();
  const alerts = alertRules && new Alerts(store, alertRules, logger, () => {});
  return {
    url: server.url,
    amqpPort: server.amqpPort,
    asksForTokens,
    steerDemo: (demo) => dashboard.demo!.steer(demo),
    stop: async () => {
      await alerts?.stop();
      // Before clients may finish: the demo's processes are clients, and would be waited for.
      await dashboard.stop();
      log.info({ clients: server.clients }, "stopping: clients may finish their claims");
      await server.drain(config.drain);
      await server.close();
      await store.close();
      log.info("stopped");
    },
  };
}

async function start(
  config: Config,
  store: Port,
  access: Access,
  listeners: Pick<ServerOptions, "logger" | "audit" | "onMeasured" | "dashboard" | "web">,
): Promise<Server> {
  const { host, port, letAnyoneIn, allowHost, allowOrigin, maxConnections, maxFrame } = config;
  try {
    return await Server.start({
      ...{ store, access, host, port, letAnyoneIn, maxConnections, ...listeners },
      clock: systemClock,
      allowHosts: allowHost,
      allowOrigins: allowOrigin,
      tls: readTls(config),
      native: { maxFrame, resumeMs: config.resume, beatMs: config.beat },
      ...(config.amqp && { amqp: { port: config.amqpPort, vhosts: config.amqpVhost } }),
    });
  } catch (error) {
    await listeners.dashboard?.stop();
    await store.close();
    throw error;
  }
}

const ENGINES: Record<ReturnType<typeof kindOf>, Me["engine"]> = {
  ...{ file: "sqlite", postgres: "postgres", memory: "memory", server: null },
};

function createDashboard(config: Config, store: Port, logger: Logger, url: () => string): Dashboard {
  const kind = kindOf(config.url);
  return new Dashboard({
    ...{ store, logger, version: VERSION },
    storeName: kind === "file" ? basename(config.url) : withoutSecrets(config.url),
    engine: ENGINES[kind],
    // Loaded only here: most servers never have the demo's traffic.
    demo: new DemoControl(async (options) => (await import("../demo/start.ts")).startDemo(options), url),
  });
}

function readAlerts(path: string): ResolvedAlerts {
  let options: unknown;
  try {
    options = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw invalid(`The file of --alerts cannot be used: ${(error as Error).message}.`);
  }
  return parseAlerts(options as AlertOptions);
}

function readTls({ tlsCert, tlsKey }: Config): { cert: Buffer; key: Buffer } | undefined {
  if (tlsCert === null && tlsKey === null) return undefined;
  if (tlsCert === null || tlsKey === null) throw invalid("--tls-cert and --tls-key must be given together.");
  try {
    const tls = { cert: readFileSync(tlsCert), key: readFileSync(tlsKey) };
    createSecureContext(tls);
    return tls;
  } catch (error) {
    throw invalid(
      `The certificate or its key cannot be read: ${(error as Error).message}. Both are files in PEM.`,
    );
  }
}
