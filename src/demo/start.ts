import { open } from "../api/open.ts";
import { kindOf } from "../core/process/address.ts";
import { invalid } from "../core/errors/errors.ts";
import { type Logger, SILENT } from "../core/process/logger.ts";
import { checkNames, checkNumber } from "../core/input/options.ts";
import { Fleet } from "./fleet.ts";
import { ALL_QUEUES } from "./shop.ts";

/**
 * The demo: real processes that add and execute the work of a small shop, so that every list and every figure moves.
 * `dibs demo` and `npm start -- --demo` start it, and a server can. It needs nothing but an address.
 */
export interface DemoOptions extends DemoSettings {
  /** Of a server or a store. All processes of the demo open it. */
  url: string;
  token?: string | undefined;
  /** Gets what goes wrong with its processes; by default nothing is logged. */
  logger?: Logger | undefined;
}

export interface DemoSettings {
  /** Emails that are added per second, 0 to 5,000; default 20. The rest of the shop has its own pace. */
  rate?: number | undefined;
  /** Processes that send emails, 0 to 32; default 3. Each sends ten at a time. */
  workers?: number | undefined;
}

export interface DemoStatus {
  rate: number;
  workers: number;
  /** False after stop(). */
  running: boolean;
  startedAt: Date;
}

const DEFAULTS = { rate: 20, workers: 3 };
export const DEMO_LIMITS = { rate: 5_000, workers: 32 };

/** Resolves when all processes run. If one of them cannot, all are ended, and it rejects with the reason. */
export async function startDemo(options: DemoOptions): Promise<Demo> {
  checkNames(options, ["url", "token", "logger", "rate", "workers"], "demo");
  const { url, token, logger = SILENT, rate, workers } = options;
  if (kindOf(url) === "memory")
    throw invalid(`The demo has several processes, and :memory: exists in one. Give it a file or a server.`);
  const settings = { ...DEFAULTS, ...checkSettings({ rate, workers }) };
  // Before the first process starts: a wrong address or token is then one error, and not six.
  const dibs = await open(url, { logger, ...(token !== undefined && { token }) });
  try {
    await Promise.all(ALL_QUEUES.map(({ name, options }) => dibs.queue(name, options).ready));
  } finally {
    await dibs.close();
  }
  const demo = new Demo(new Fleet({ url, token }, { rate: settings.rate }, logger), settings);
  try {
    await demo.ready;
  } catch (error) {
    await demo.stop();
    throw error;
  }
  return demo;
}

export class Demo implements AsyncDisposable {
  /** @internal */
  readonly ready: Promise<unknown>;
  readonly #fleet: Fleet;
  readonly #startedAt = new Date();
  readonly #settings: typeof DEFAULTS;
  #stopped: Promise<void> | undefined;

  /** @internal Created by startDemo(). */
  constructor(fleet: Fleet, settings: typeof DEFAULTS) {
    this.#fleet = fleet;
    this.#settings = settings;
    const others = (["agents", "operator", "producer"] as const).map((role) => fleet.keep(role, 1));
    this.ready = Promise.all([fleet.keep("mailer", settings.workers), ...others]);
  }

  status(): DemoStatus {
    return { ...this.#settings, running: this.#stopped === undefined, startedAt: this.#startedAt };
  }

  /** Takes effect at once: workers that are too many finish their tasks and end. */
  set(settings: DemoSettings): void {
    const checked = checkSettings(settings);
    if (this.#stopped) throw invalid("The demo was stopped. Start another one.");
    Object.assign(this.#settings, checked);
    if (checked.rate !== undefined) this.#fleet.send({ rate: checked.rate });
    // A worker that cannot start is replaced until it can.
    if (checked.workers !== undefined) this.#fleet.keep("mailer", checked.workers).catch(() => {});
  }

  /** Ends all processes. Its queues and what is in them stay; its schedules are deleted. */
  stop(): Promise<void> {
    return (this.#stopped ??= this.#fleet.stop());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

/** Only those that are given. */
function checkSettings(settings: DemoSettings): Partial<typeof DEFAULTS> {
  checkNames(settings, ["rate", "workers"], "demo");
  const checked: Partial<typeof DEFAULTS> = {};
  for (const name of ["rate", "workers"] as const)
    if (settings[name] !== undefined) checked[name] = checkNumber(settings[name], name, 0, DEMO_LIMITS[name]);
  return checked;
}
