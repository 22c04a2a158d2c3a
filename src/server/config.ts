import { readFileSync } from "node:fs";
import { withoutSecrets } from "../core/process/address.ts";
import { parseDuration } from "../core/time/duration.ts";
import { invalid } from "../core/errors/errors.ts";
import { show } from "../core/errors/show.ts";
import { codeOf } from "../engine/real-file.ts";

/**
 * All settings of a server: each can be given as a flag, as an environment variable, or in a file, or has its default.
 */
export interface Setting {
  about: string;
  /** What the flag takes; a switch takes nothing. */
  takes: "TEXT" | "PATH" | "NUMBER" | "DURATION" | "LIST" | null;
  default: string | number | boolean | null | readonly string[];
  /** Lower and upper bound of a number, or of a duration in milliseconds. */
  least?: number;
  most?: number;
  /** The only allowed texts. */
  among?: readonly string[];
}

export const SETTINGS = {
  url: { about: "the store: a file, postgres://… or :memory:", takes: "TEXT", default: "./dibs.db" },
  schema: {
    about: "PostgreSQL: the schema that contains the tables; default dibs",
    takes: "TEXT",
    default: null,
  },
  pooler: {
    about: "PostgreSQL is behind a transaction pooler such as PgBouncer",
    takes: null,
    default: false,
  },
  host: { about: "the address to listen on", takes: "TEXT", default: "127.0.0.1" },
  port: { about: "the port to listen on; 0: any free port", takes: "NUMBER", default: 7411, most: 65_535 },
  tokens: { about: "the file of the tokens; default: next to the store", takes: "PATH", default: null },
  letAnyoneIn: {
    about: "allow everyone who reaches the address to do everything",
    takes: null,
    default: false,
  },
  allowHost: { about: "a name by which this server may be called", takes: "LIST", default: [] },
  allowOrigin: { about: "an origin whose pages may call this server", takes: "LIST", default: [] },
  tlsCert: { about: "the certificate, for https", takes: "PATH", default: null },
  tlsKey: { about: "the certificate's key", takes: "PATH", default: null },
  drain: { about: "how long clients may finish after SIGTERM", takes: "DURATION", default: 25_000 },
  maxConnections: { about: "most connections at once", takes: "NUMBER", default: 20_000, least: 1 },
  maxFrame: {
    ...{ about: "most bytes of one message from a client", takes: "NUMBER", default: 32 * 1024 * 1024 },
    // A smaller frame could not hold a call with its names and a small payload.
    least: 4_096,
  },
  resume: { about: "how long a lost connection can be resumed", takes: "DURATION", default: 3_000 },
  // With a shorter interval the server would do little else.
  beat: {
    about: "how often each side checks that the other is alive",
    takes: "DURATION",
    default: 5_000,
    least: 100,
  },
  amqp: { about: "also speak AMQP 0-9-1, as RabbitMQ does", takes: null, default: false },
  amqpPort: {
    about: "the port for AMQP; 0: any free port",
    takes: "NUMBER",
    default: 5_672,
    most: 65_535,
  },
  amqpVhost: { about: "a virtual host of AMQP besides /", takes: "LIST", default: [] },
  alerts: {
    about: "a JSON file with rules of alerts, which this server evaluates",
    takes: "PATH",
    default: null,
  },
  logLevel: {
    ...{ about: "what is logged: debug, info, warn, error, silent", takes: "TEXT", default: "info" },
    among: ["trace", "debug", "info", "warn", "error", "fatal", "silent"],
  },
} as const satisfies Record<string, Setting>;

export type SettingName = keyof typeof SETTINGS;

export interface Config {
  url: string;
  schema: string | null;
  pooler: boolean;
  host: string;
  port: number;
  tokens: string | null;
  letAnyoneIn: boolean;
  allowHost: string[];
  allowOrigin: string[];
  tlsCert: string | null;
  tlsKey: string | null;
  drain: number;
  maxConnections: number;
  maxFrame: number;
  resume: number;
  beat: number;
  amqp: boolean;
  amqpPort: number;
  amqpVhost: string[];
  alerts: string | null;
  logLevel: string;
}

export interface Resolved {
  config: Config;
  /** Where each value came from, as text. */
  sources: Record<SettingName, string>;
}

/** Flags override the environment, the environment overrides the file, and the file overrides the defaults. */
export function resolveConfig(
  flags: Partial<Record<SettingName, unknown>>,
  env: NodeJS.ProcessEnv,
  file?: string,
): Resolved {
  const inFile = file === undefined ? {} : readConfigFile(file);
  const values: Record<string, unknown> = {};
  const sources = {} as Record<SettingName, string>;
  for (const name of Object.keys(SETTINGS) as SettingName[]) {
    const setting: Setting = SETTINGS[name];
    const [value, source] = find(name, flags, env, inFile, file);
    values[name] = value === undefined ? setting.default : parse(value, setting, source);
    sources[name] = source;
  }
  return { config: values as unknown as Config, sources };
}

export function flagOf(name: SettingName): string {
  return `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

export function variableOf(name: SettingName): string {
  return `DIBS_${name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}

function find(
  name: SettingName,
  flags: Partial<Record<SettingName, unknown>>,
  env: NodeJS.ProcessEnv,
  inFile: Record<string, unknown>,
  file: string | undefined,
): [unknown, string] {
  if (flags[name] !== undefined) return [flags[name], flagOf(name)];
  const variable = variableOf(name);
  // A secret in its own file, as Docker and Kubernetes provide them.
  const path = env[`${variable}_FILE`];
  // One of them may come from an image or a unit, and it is unclear which one is intended.
  if (env[variable] && path)
    throw invalid(`${variable} and ${variable}_FILE are both set. Leave one of them out.`);
  if (env[variable]) return [env[variable], variable];
  if (path) return [readSecret(path, `${variable}_FILE`), `${variable}_FILE`];
  if (inFile[name] !== undefined) return [inFile[name], file!];
  return [undefined, "default"];
}

function parse(value: unknown, setting: Setting, source: string): unknown {
  const { takes, least = 0, most = Number.MAX_SAFE_INTEGER, among } = setting;
  switch (takes) {
    case "NUMBER": {
      const number = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value;
      if (Number.isSafeInteger(number) && (number as number) >= least && (number as number) <= most)
        return number;
      const bounds = setting.most === undefined ? `${least} or more` : `${least} to ${most}`;
      throw invalid(`${source} is a whole number, ${bounds}; got ${show(value)}.${adviceOn(value)}`);
    }
    case "DURATION": {
      const given = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value;
      return parseDuration(given, source, least);
    }
    case "LIST": {
      const list = typeof value === "string" ? value.split(",") : value;
      if (Array.isArray(list)) return list.map((each) => String(each).trim()).filter((each) => each !== "");
      throw invalid(`${source} is a list, or texts with commas between them; got ${show(value)}.`);
    }
    case null:
      if (typeof value === "boolean") return value;
      if (value === "true" || value === "1") return true;
      if (value === "false" || value === "0") return false;
      throw invalid(`${source} is true or false; got ${show(value)}.`);
    default:
      if (typeof value !== "string" || value === "")
        throw invalid(`${source} is a text; got ${show(value)}.`);
      if (among?.includes(value) === false)
        throw invalid(`${source} is one of ${among.join(", ")}; got ${show(value)}.`);
      return value;
  }
}

/** Kubernetes gives every pod of a service "dibs" a variable with the name of our port's. */
function adviceOn(value: unknown): string {
  if (typeof value !== "string" || !value.startsWith("tcp://")) return "";
  return " Kubernetes set it for a service of that name: set enableServiceLinks: false in the pod's spec.";
}

function readConfigFile(path: string): Record<string, unknown> {
  let given: unknown;
  try {
    given = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    // The parser's message quotes the file, which may contain a password.
    const reason = error instanceof SyntaxError ? `it is not JSON${positionIn(error)}` : codeOf(error);
    throw invalid(`The configuration in ${path} cannot be read: ${reason}.`);
  }
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw invalid(`The configuration in ${path} is an object, such as { "port": 7411 }; got ${show(given)}.`);
  const unknown = Object.keys(given).find((name) => !(name in SETTINGS));
  if (unknown !== undefined) {
    throw invalid(
      `${path} sets ${show(unknown)}, which is not a setting. Known: ${Object.keys(SETTINGS).join(", ")}.`,
    );
  }
  return given as Record<string, unknown>;
}

function positionIn({ message }: SyntaxError): string {
  const found = / \(line \d+ column \d+\)/.exec(message);
  return found ? found[0] : "";
}

function readSecret(path: string, variable: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch (error) {
    // Do not show the name: someone who confuses the two variables has put the secret there.
    throw invalid(`${variable} names a file that cannot be read (${codeOf(error)}).`);
  }
}

/** Every value and where it came from, for people, without passwords. */
export function printConfig({ config, sources }: Resolved): string {
  const rows = (Object.keys(SETTINGS) as SettingName[]).map((name) => {
    const value = name === "url" ? withoutSecrets(config.url) : config[name];
    return [name, JSON.stringify(value), sources[name]] as const;
  });
  const width = (column: 0 | 1): number => Math.max(...rows.map((row) => row[column].length));
  return rows
    .map(([name, value, source]) => `${name.padEnd(width(0))}  ${value.padEnd(width(1))}  ${source}`)
    .join("\n");
}
