import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { DibsError } from "../core/errors/errors.ts";
import type { Logger } from "../core/process/logger.ts";
import { commandOf, type RoleName, type Settings } from "./role.ts";

/** The processes of the demo: starts them, replaces those that end, and ends them all. start.ts uses it. */
interface Member {
  role: RoleName;
  /** 1 for the first of its role. Its replacement has the same number, and so the same name. */
  number: number;
  child: ChildProcess;
  isEnding: boolean;
  /** Rejects if it ends before it has connected. */
  ready: Promise<void>;
  ended: Promise<void>;
}

/** A crash is part of the demo, and the worker is replaced after this time. */
const REPLACE_MS = 1_500;
/** A process that has not ended by then is killed. */
const PATIENCE_MS = 10_000;

export class Fleet {
  readonly #env: NodeJS.ProcessEnv;
  readonly #logger: Logger;
  readonly #wanted = new Map<RoleName, number>();
  readonly #members = new Set<Member>();
  #settings: Settings;

  constructor(address: { url: string; token?: string | undefined }, settings: Settings, logger: Logger) {
    const { url, token } = address;
    this.#env = { ...process.env, DIBS_URL: url, ...(token !== undefined && { DIBS_TOKEN: token }) };
    // Set if the caller is a worker of a pool: then each process would take itself for one.
    delete this.#env["DIBS_POOL"];
    this.#settings = settings;
    this.#logger = logger;
    process.on("exit", this.#kill);
  }

  /** After the second Ctrl-C, nothing waits for them. */
  readonly #kill = (): void => {
    for (const { child } of this.#members) child.kill("SIGKILL");
  };

  /** Keeps this many processes of a role. Resolves when those that it started have connected. */
  async keep(role: RoleName, count: number): Promise<void> {
    this.#wanted.set(role, count);
    const active = [...this.#members].filter((each) => each.role === role && !each.isEnding);
    for (const each of active) if (each.number > count) void this.#end(each);
    const numbers = new Set(active.map(({ number }) => number));
    const missing = Array.from({ length: count }, (_, index) => index + 1).filter(
      (each) => !numbers.has(each),
    );
    await Promise.all(missing.map((number) => this.#start(role, number)));
  }

  send(settings: Settings): void {
    this.#settings = settings;
    for (const { child } of this.#members) this.#sendTo(child);
  }

  /** Ends all processes: first the one that adds work, then those that execute it. */
  async stop(): Promise<void> {
    for (const role of this.#wanted.keys()) this.#wanted.set(role, 0);
    const endAll = async (members: Member[]) =>
      void (await Promise.all(members.map((each) => this.#end(each))));
    await endAll([...this.#members].filter(({ role }) => role === "producer"));
    await endAll([...this.#members]);
    process.off("exit", this.#kill);
  }

  #start(role: RoleName, number: number): Promise<void> {
    const name = role === "mailer" ? `${role}-${number}` : role;
    const [program, ...args] = commandOf(role, name);
    const child = spawn(program, args, { env: this.#env, stdio: ["pipe", "pipe", "pipe"] });
    let said = "";
    createInterface({ input: child.stderr }).on("line", (line) => {
      said = line;
      this.#logger.warn(`Demo, ${name}: ${line}`);
    });
    const member = { role, number, child, isEnding: false, ...follow(child, () => said) };
    this.#members.add(member);
    child.stdin.on("error", () => {});
    this.#sendTo(child);
    void member.ended.then(() => this.#replace(member));
    return member.ready;
  }

  #replace(member: Member): void {
    this.#members.delete(member);
    const { role } = member;
    const replace = (): void => {
      // If it fails too, it is replaced too. Its reason is in the log.
      this.keep(role, this.#wanted.get(role)!).catch(() => {});
    };
    if (!member.isEnding) setTimeout(replace, REPLACE_MS).unref();
  }

  async #end(member: Member): Promise<void> {
    member.isEnding = true;
    // The end of its input asks it to finish what it has begun.
    member.child.stdin!.end();
    const timer = setTimeout(() => member.child.kill("SIGKILL"), PATIENCE_MS);
    await member.ended;
    clearTimeout(timer);
  }

  #sendTo({ stdin }: ChildProcess): void {
    if (stdin!.writable) stdin!.write(`${JSON.stringify(this.#settings)}\n`);
  }
}

function follow(child: ChildProcess, said: () => string): Pick<Member, "ready" | "ended"> {
  const ended = new Promise<void>((resolve) => {
    // Not "exit": by "close", what it said is read. If it could not be started, there is only "error".
    child.once("close", () => resolve());
    child.once("error", () => resolve());
  });
  const ready = new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stdout! }).once("line", () => resolve());
    void ended.then(() =>
      reject(
        new DibsError("UNAVAILABLE", `A process of the demo ended at once: ${said() || "no reason given"}`),
      ),
    );
  });
  // It is handled where it is awaited. A replacement's is in the log.
  ready.catch(() => {});
  return { ready, ended };
}
