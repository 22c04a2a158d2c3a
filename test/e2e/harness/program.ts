import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/** A line that a program printed: `say()` in programs/say.ts. */
export interface Saying {
  said: string;
  id?: string;
  fence?: number;
  attempt?: number;
  code?: string;
  /** The ids of its workers. */
  workers?: string[];
  [detail: string]: unknown;
}

interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface ProgramOptions {
  execArgv?: string[];
  env?: NodeJS.ProcessEnv;
  /** A command that starts it somewhere else, such as in another network. */
  by?: string[];
}

/** Only a failing test reaches this. Long enough for a busy machine. */
const PATIENCE_MS = 60_000;

/**
 * A process that runs one of programs/. Everything that it says is recorded, so that waiting for something that was
 * already said ends at once.
 */
export class Program {
  readonly name: string;
  readonly sayings: Saying[] = [];
  readonly exited: Promise<Exit>;
  readonly #child: ChildProcess;
  readonly #listeners = new Set<() => void>();
  #rest = "";
  #stderr = "";
  #exit: Exit | undefined;

  constructor(file: string, options: object, how: ProgramOptions = {}) {
    this.name = file;
    const path = fileURLToPath(new URL(`../programs/${file}`, import.meta.url));
    const command = [
      ...(how.by ?? []),
      process.execPath,
      ...(how.execArgv ?? []),
      path,
      JSON.stringify(options),
    ];
    this.#child = spawn(command[0]!, command.slice(1), {
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      env: { ...process.env, ...how.env },
    });
    this.#child.stdout!.setEncoding("utf8").on("data", (text: string) => this.#hear(text));
    this.#child.stderr!.setEncoding("utf8").on("data", (text: string) => (this.#stderr += text));
    this.#child.on("error", () => {});
    this.exited = new Promise((resolve) => {
      // "close" comes after the last line was read; "exit" may come before.
      this.#child.once("close", (code, signal) => {
        this.#exit = { code, signal };
        resolve(this.#exit);
        for (const listener of this.#listeners) listener();
      });
    });
  }

  get pid(): number {
    return this.#child.pid!;
  }

  get stderr(): string {
    return this.#stderr;
  }

  get isRunning(): boolean {
    return this.#exit === undefined;
  }

  /** What it has said so far of this kind. */
  all(said: string): Saying[] {
    return this.sayings.filter((saying) => saying.said === said);
  }

  /** The first line of this kind that matches, past or future. */
  async hears(said: string, fits: (saying: Saying) => boolean = () => true): Promise<Saying> {
    const find = () => this.sayings.find((saying) => saying.said === said && fits(saying));
    await this.#until(() => find() !== undefined, `"${said}"`);
    return find()!;
  }

  /** Waits for `count` lines of this kind. */
  async hearsTimes(said: string, count: number): Promise<Saying[]> {
    await this.#until(() => this.all(said).length >= count, `${count} × "${said}"`);
    return this.all(said);
  }

  tell(message: object): void {
    this.#child.send(message, () => {});
  }

  signal(signal: NodeJS.Signals): void {
    if (this.isRunning) this.#child.kill(signal);
  }

  /** Returns how it ended: it may have ended by itself before. */
  async kill(): Promise<Exit> {
    this.signal("SIGKILL");
    return this.exited;
  }

  /** Asks it to stop gracefully. */
  async stop(): Promise<Exit> {
    this.signal("SIGTERM");
    const exit = await Promise.race([this.exited, this.#until(() => !this.isRunning, "its end")]);
    return exit ?? this.exited;
  }

  #hear(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop()!;
    for (const line of lines) this.sayings.push(JSON.parse(line) as Saying);
    for (const listener of this.#listeners) listener();
  }

  async #until(holds: () => boolean, what: string): Promise<void> {
    if (holds()) return;
    await new Promise<void>((resolve, reject) => {
      const give = (error?: Error): void => {
        clearTimeout(timer);
        this.#listeners.delete(look);
        if (error) reject(error);
        else resolve();
      };
      const look = (): void => {
        if (holds()) give();
        else if (this.#exit) give(this.#complaint(`ended (${JSON.stringify(this.#exit)}) without`, what));
      };
      const timer = setTimeout(() => give(this.#complaint("was waited for in vain for", what)), PATIENCE_MS);
      this.#listeners.add(look);
    });
  }

  #complaint(how: string, what: string): Error {
    const last = this.sayings.slice(-10).map((saying) => JSON.stringify(saying));
    return new Error(
      [`${this.name} (pid ${this.pid}) ${how} ${what}. It said last:`, ...last, this.#stderr.trim()].join(
        "\n",
      ),
    );
  }
}
