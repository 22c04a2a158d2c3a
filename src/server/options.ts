import type { Clock } from "../core/time/clock.ts";
import type { Measured } from "../core/commit.ts";
import type { Logger } from "../core/process/logger.ts";
import type { Port } from "../core/port.ts";
import type { Dashboard } from "../dashboard/dashboard.ts";
import type { AmqpOptions } from "../doors/amqp/door.ts";
import type { NativeOptions } from "../doors/native/door.ts";
import type { Access } from "./access.ts";
import type { AdminAction } from "./guard.ts";
import type { WebFiles } from "./web-files.ts";

/** What `Server.start` takes. `serve.ts` fills it from the configuration (config.ts), tests directly. */
export interface ServerOptions {
  store: Port;
  access: Access;
  host: string;
  /** 0: any free port. */
  port: number;
  /** The operator explicitly allowed everyone who reaches the address to do everything. */
  letAnyoneIn: boolean;
  allowHosts?: readonly string[];
  allowOrigins?: readonly string[];
  maxConnections?: number;
  tls?: { cert: Buffer; key: Buffer } | undefined;
  clock: Clock;
  logger: Logger;
  audit?: (action: AdminAction) => void;
  /** What the dashboard's page reads. Without it, its paths are answered with UNSUPPORTED. */
  dashboard?: Dashboard | undefined;
  /** The page itself. */
  web?: (() => Promise<WebFiles | undefined>) | undefined;
  /** Registers a listener for the store's measurements. */
  onMeasured?: (listener: (measured: Measured) => void) => void;
  /** A client that does not send the headers of a request in this time is cut off; in milliseconds, as below. */
  headersMs?: number;
  /** A client that does not send a whole request in this time is cut off. */
  requestMs?: number;
  /** A client that has not read its answer in this time is cut off. */
  readMs?: number;
  /** A connection that the server ended is destroyed if its client has not ended it in this time. */
  farewellMs?: number;
  native?: Omit<NativeOptions, "clock" | "logger">;
  /** Also speak AMQP, at this port; 0: any free port. */
  amqp?: { port: number } & Pick<AmqpOptions, "maxBody" | "handshakeMs" | "vhosts" | "mostUnstored">;
}
