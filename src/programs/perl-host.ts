import { type ChildProcessByStdio, spawn } from "node:child_process";
import { constants } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { getSystemErrorName } from "node:util";
import { guardianEnvironment, newMark, SCRIPT } from "./guardian.ts";
import type { HostOptions, ProgramStart } from "./host.ts";
import { type Ended, ERROR_BYTES, LINGER_MS, NotStarted, OUTPUT_BYTES, type Running } from "./launch.ts";
import type { Launcher } from "./launchers.ts";
import { textOfHead, textOfTail } from "./output.ts";
import { PERL, PERL_SCRIPT } from "./perl-launcher.ts";

/** Has a process of Perl start the programs: perl-launcher.ts says why, and describes the messages. */
export class PerlHost implements Launcher {
  readonly exited: Promise<unknown>;
  readonly #options: HostOptions;
  readonly #launcher: ChildProcessByStdio<Writable, Readable, null>;
  readonly #programs = new Map<number, PerlProgram>();
  #lastId = 0;
  #isGone = false;
  #begun: Buffer = Buffer.alloc(0);

  constructor(options: HostOptions, passesErrors: boolean, number: number) {
    this.#options = options;
    this.#launcher = spawn(PERL, ["-f", "-e", PERL_SCRIPT], {
      // Variables of the programs, such as PERL5OPT, are not for the launcher.
      env: {},
      stdio: ["pipe", "pipe", "ignore"],
      // Signals of the terminal must not reach it.
      detached: true,
    });
    this.exited = new Promise<void>((resolve) => {
      const onGone = (): void => {
        this.#isGone = true;
        resolve();
      };
      this.#launcher.once("close", onGone);
      this.#launcher.once("error", onGone);
    });
    // Once it is gone, `exited` says so.
    this.#launcher.stdin.on("error", () => {});
    this.#launcher.stdout.on("data", (chunk: Buffer) => this.#receive(chunk));
    this.#send("B", 0, [settingsOf(options, passesErrors, number)]);
  }

  get active(): number {
    return this.#programs.size;
  }

  start({ env, input, onError }: ProgramStart): Running | undefined {
    if (this.#isGone) return undefined;
    const id = ++this.#lastId;
    const program = new PerlProgram((kind) => this.#send(kind, id, []), this.#options.killAfter, onError);
    this.#programs.set(id, program);
    const facts = Buffer.from(environmentOf(env));
    const body = typeof input === "string" ? Buffer.from(input) : input;
    this.#send("S", id, [uint32(facts.byteLength), facts, body]);
    return program;
  }

  fail(error: NotStarted): void {
    for (const program of this.#programs.values()) program.fail(error);
    this.#programs.clear();
  }

  close(): void {
    this.#launcher.stdin.end();
  }

  #send(kind: string, id: number, body: Uint8Array[]): void {
    const head = Buffer.allocUnsafe(9);
    head.writeUInt32BE(body.reduce((bytes, part) => bytes + part.byteLength, 5));
    head.write(kind, 4, "latin1");
    head.writeUInt32BE(id, 5);
    if (!this.#isGone) this.#launcher.stdin.write(Buffer.concat([head, ...body]));
  }

  #receive(chunk: Buffer): void {
    let rest = this.#begun.byteLength === 0 ? chunk : Buffer.concat([this.#begun, chunk]);
    while (rest.byteLength >= 4 && rest.byteLength >= 4 + rest.readUInt32BE(0)) {
      const end = 4 + rest.readUInt32BE(0);
      this.#handle(String.fromCharCode(rest[4]!), rest.readUInt32BE(5), rest.subarray(9, end));
      rest = rest.subarray(end);
    }
    this.#begun = rest;
  }

  #handle(kind: string, id: number, body: Buffer): void {
    const program = this.#programs.get(id);
    if (!program) return;
    if (kind === "W") return program.wrote(body);
    if (kind === "X") return program.exited(body[0] === ONE);
    this.#programs.delete(id);
    if (kind === "E") return program.hasEnded(endedOf(body));
    const code = getSystemErrorName(-body.readUInt32BE(0));
    program.fail(new NotStarted(`spawn ${this.#options.command[0]} ${code}`));
  }
}

const ONE = "1".charCodeAt(0);

class PerlProgram implements Running {
  readonly #ended = Promise.withResolvers<Ended>();
  readonly ended = this.#ended.promise;
  readonly #send: (kind: "T" | "K" | "F") => void;
  readonly #killAfter: number;
  readonly #onError: ProgramStart["onError"];
  #isEnding = false;
  #killTimer: NodeJS.Timeout | undefined;
  #lingerTimer: NodeJS.Timeout | undefined;

  constructor(send: (kind: "T" | "K" | "F") => void, killAfter: number, onError: ProgramStart["onError"]) {
    this.#send = send;
    this.#killAfter = killAfter;
    this.#onError = onError;
  }

  end(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.#send("T");
    this.#killTimer = setTimeout(() => this.kill(), this.#killAfter);
  }

  kill(): void {
    this.#isEnding = true;
    this.#send("K");
  }

  wrote(chunk: Buffer): void {
    this.#onError?.(chunk);
  }

  /** Some process still has its output open: one that it started, which ends with it, or one that left its group. */
  exited(isGroupAlive: boolean): void {
    if (isGroupAlive) this.end();
    const linger = this.#isEnding ? this.#killAfter + LINGER_MS : LINGER_MS;
    this.#lingerTimer = setTimeout(() => this.#send("F"), linger);
  }

  hasEnded(ended: Ended): void {
    this.#clear();
    this.#ended.resolve(ended);
  }

  fail(error: NotStarted): void {
    this.#clear();
    this.#ended.reject(error);
  }

  #clear(): void {
    clearTimeout(this.#killTimer);
    clearTimeout(this.#lingerTimer);
  }
}

/** The first message, in the order in which the launcher reads it. */
function settingsOf(options: HostOptions, passesErrors: boolean, number: number): Buffer {
  const { command, env, folder, killAfter } = options;
  const mark = newMark();
  const groupsFile = join(folder, `groups-${number}`);
  const guardian = environmentOf(guardianEnvironment({ folder, groupsFile, killAfter, mark }));
  const limits = [String(OUTPUT_BYTES), String(ERROR_BYTES), passesErrors ? "1" : "0"];
  const words = [...limits, mark, groupsFile, SCRIPT, guardian, environmentOf(env), ...command];
  return Buffer.concat(words.flatMap((word) => [uint32(Buffer.byteLength(word)), Buffer.from(word)]));
}

function environmentOf(env: Record<string, string>): string {
  return Object.entries(env)
    .map(([name, value]) => `${name}=${value}`)
    .join("\0");
}

function uint32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function endedOf(body: Buffer): Ended {
  const status = body.readUInt16BE(0);
  const signal = status & 0x7f;
  const outputBytes = body.readDoubleBE(2);
  const errorBytes = body.readDoubleBE(10);
  const errorsAt = 22 + body.readUInt32BE(18);
  const output = body.subarray(22, errorsAt);
  const errors = body.subarray(errorsAt);
  return {
    code: signal === 0 ? status >> 8 : null,
    signal: signal === 0 ? null : (SIGNALS.get(signal) ?? null),
    output: { text: textOfHead(output), bytes: outputBytes, missing: outputBytes - output.byteLength },
    errors: { text: textOfTail(errors), bytes: errorBytes, missing: errorBytes - errors.byteLength },
  };
}

const SIGNALS = new Map(
  // The first name of a number is the usual one: a later entry replaces an earlier one.
  Object.entries(constants.signals)
    .toReversed()
    .map(([name, number]) => [number, name as NodeJS.Signals]),
);
