import type { Clock } from "../core/time/clock.ts";
import { DibsError, errorFrom } from "../core/errors/errors.ts";
import { KeepAlive } from "../core/process/keep-alive.ts";
import type { Logger } from "../core/process/logger.ts";
import type { ClaimNotice, ClaimResult, ClaimCall, SettleRef, SettleCall } from "../core/task/claim-call.ts";
import type { Port } from "../core/port.ts";
import type { ClaimedTask, TaskState, WorkerInfo } from "../core/task/task.ts";
import { encode } from "../protocol/codec.ts";
import { VERBS, type WireVerb } from "../protocol/verbs.ts";
import { Calls } from "./calls.ts";
import { addressOf } from "./dial.ts";
import { Listeners } from "./events.ts";
import { Link } from "./link.ts";
import { type Rejoined, Sessions } from "./sessions.ts";
import { outcomeOfResent } from "./settle-again.ts";

// `openRemote()`: the port to a server. `open()` calls it for addresses of servers.

export interface RemoteOptions {
  /** http:, https:, ws: or wss: */
  url: string;
  token?: string | undefined;
  clock: Clock;
  logger: Logger;
  random?: () => number;
}

/** The port to a dibs server. */
export async function openRemote(options: RemoteOptions): Promise<Port> {
  const remote = new Remote(options);
  // The connection does not keep the process alive, so keep it alive until the connection is open.
  await new KeepAlive().during(remote.open());
  return remote.port;
}

const refuseDocuments = (): Promise<never> =>
  Promise.reject(
    new DibsError("UNSUPPORTED", "The documents of doors are not available through a dibs server."),
  );

const NOTHING: ClaimResult = { tasks: [], policies: {} };

class Remote {
  readonly port: Port;
  readonly #link: Link;
  readonly #calls: Calls;
  readonly #sessions: Sessions;
  readonly #listeners: Listeners;
  readonly #closing = new AbortController();
  /** Counts the sessions of the connection. */
  #epoch = 0;
  #isRestoring = false;
  #closed: Promise<void> | undefined;

  constructor({ url, token, clock, logger, random = Math.random }: RemoteOptions) {
    const address = addressOf(url, token);
    this.#link = new Link(
      { address, clock, logger, random },
      {
        onItem: (item) => this.#onItem(item as [string, number, never]),
        onFresh: () => void this.#restore(),
        onResumed: () => {
          this.#sessions.up();
          if (!this.#isRestoring) this.#calls.resumed();
        },
        onDown: () => {
          this.#calls.down();
          this.#sessions.down();
        },
        onRefused: (error) => {
          this.#calls.refuse(error);
          this.#calls.failAll(error);
          this.#listeners.endAll();
        },
      },
    );
    this.#calls = new Calls(this.#link, clock, address.where);
    this.#sessions = new Sessions(clock);
    this.#listeners = new Listeners(clock, (item) => this.#link.send(item));
    const passedOn = Object.fromEntries(
      Object.keys(VERBS).map((verb) => [
        verb,
        (...args: unknown[]) => this.#calls.run(verb as WireVerb, args),
      ]),
    ) as unknown as Pick<Port, WireVerb>;
    this.port = {
      ...passedOn,
      clock,
      add: (tasks, options) => this.#withoutTx(options, () => this.#calls.run("add", [tasks])),
      publish: (message, options) => this.#withoutTx(options, () => this.#calls.run("publish", [message])),
      claim: (request) => this.#claim(request),
      settle: (held, call, options) => this.#withoutTx(options, () => this.#settle(held, call)),
      // Sends only what identifies the claim: the object may be a task with everything that its handler uses.
      extend: ({ id, fence }, lease) => this.#calls.run("extend", [{ id, fence }, lease]),
      progress: ({ id, fence }, ...report) => this.#calls.run("progress", [{ id, fence }, ...report]),
      spawn: ({ id, fence }, children) => this.#calls.run("spawn", [{ id, fence }, children]),
      end: (id, options) => this.#end(id, options),
      join: (worker, lease, listener) => this.#join(worker, lease, listener),
      rejoin: (session, fences, listener) => this.#rejoin(session, fences, listener),
      leave: (session, options) => this.#leave(session, options),
      documents: { list: refuseDocuments, put: refuseDocuments },
      events: (signal) => this.#listeners.open(this.#calls.nextId(), signal),
      close: () => (this.#closed ??= this.#close()),
    };
  }

  async open(): Promise<void> {
    await this.#link.open();
  }

  // ── Verbs with more than data ──────────────────────────────────────────────────────────────────────────

  #withoutTx<T>(options: { tx?: unknown } | undefined, run: () => Promise<T>): Promise<T> {
    if (options?.tx === undefined) return run();
    return Promise.reject(
      new DibsError(
        "UNSUPPORTED",
        "tx: your transaction cannot be used through a dibs server. Open the PostgreSQL database directly for that.",
      ),
    );
  }

  async #claim({ signal, ...request }: ClaimCall): Promise<ClaimResult> {
    signal?.throwIfAborted();
    try {
      return await this.#calls.run<ClaimResult>("claim", [request], {
        // A claim that does not wait is answered before it could be aborted.
        ...(request.wait > 0 && { signal: this.#until(signal) }),
        onAnswer: (result: ClaimResult) => this.#sessions.claimed(request.session, result),
        onLate: ({ tasks }: ClaimResult) => this.#giveBack(tasks),
      });
    } catch (error) {
      if (error === CLOSED_REASON) return NOTHING;
      throw error;
    }
  }

  /** Releases tasks that no caller waits for. */
  #giveBack(tasks: ClaimedTask[]): void {
    for (const task of tasks) this.#settle(task, { kind: "release", started: false }, true).catch(() => {});
  }

  #settle(held: SettleRef, call: SettleCall, isAllowedWhileClosing = false): Promise<{ state: TaskState }> {
    const { id, fence, queue, attempt } = held;
    // Leave out queue and attempt for an ack: only the backoff of a retry needs them.
    const claim = call.kind === "ack" ? { id, fence } : { id, fence, queue, attempt };
    return this.#calls.run("settle", [claim, call], {
      isAllowedWhileClosing,
      onAnswer: () => this.#sessions.settled(fence),
      onFailure: (error) => {
        if ((error as Partial<DibsError>).code === "CLAIM_LOST") this.#sessions.settled(fence);
      },
      onRefusedResend: (error) => outcomeOfResent(this.port, held, call, error),
    });
  }

  async #end(id: string, options: Parameters<Port["end"]>[1] = {}): ReturnType<Port["end"]> {
    const { timeout, signal, of } = options;
    try {
      const said = { ...(timeout !== undefined && { timeout }), ...(of && { of }) };
      const args = timeout === undefined && !of ? [id] : [id, said];
      return await this.#calls.run("end", args, { signal: this.#until(signal) });
    } catch (error) {
      if (error !== CLOSED_REASON) throw error;
      throw new DibsError("CLOSED", "Closed while waiting for a result. The task continues.");
    }
  }

  #until(signal: AbortSignal | undefined): AbortSignal {
    return signal ? AbortSignal.any([signal, this.#closing.signal]) : this.#closing.signal;
  }

  async #join(worker: WorkerInfo, lease: number, listener: (notice: ClaimNotice) => void): Promise<number> {
    const { session } = await this.#calls.run<{ session: number }>("join", [worker, lease], {
      onAnswer: (joined: { session: number; ticket: string }) =>
        this.#sessions.joined(joined.session, joined.ticket, lease, listener),
    });
    return session;
  }

  async #rejoin(
    old: number,
    fences: number[],
    listener: (notice: ClaimNotice) => void,
  ): ReturnType<Port["rejoin"]> {
    const { session, lost } = await this.#calls.run<Rejoined>("rejoin", [old, fences], {
      onAnswer: (rejoined: Rejoined) => this.#sessions.renamed(old, rejoined, fences, listener),
    });
    return { session, lost };
  }

  async #leave(session: number, options?: { lost?: boolean }): Promise<void> {
    try {
      await this.#calls.run("leave", options ? [session, options] : [session]);
    } finally {
      // Forget the session only now: a restarted server must know it in order to end it.
      this.#sessions.left(session);
    }
  }

  // ── Received items ─────────────────────────────────────────────────────────────────────────────────────

  #onItem([kind, id, content]: [string, number, never]): void {
    switch (kind) {
      case "ok":
        return this.#calls.answered(id, content);
      case "error":
        if (!this.#listeners.failed(id, errorFrom(content))) this.#calls.failed(id, content);
        return;
      case "notice":
        return this.#sessions.onNotice(id, content);
      case "events":
        return this.#listeners.arrived(id, content);
      default:
      // A later version may send more kinds.
    }
  }

  /** In a new session workers rejoin first, because their next calls need their claims. */
  async #restore(): Promise<void> {
    const epoch = ++this.#epoch;
    this.#isRestoring = true;
    this.#calls.failOpening();
    await this.#sessions.restore((...args) => this.#calls.runOpening("rejoin", args));
    if (epoch !== this.#epoch) return;
    this.#isRestoring = false;
    this.#listeners.restart();
    // The connection was lost again: the next one handles the calls.
    if (this.#link.isUp) this.#calls.resend();
  }

  async #close(): Promise<void> {
    this.#calls.refuse(new DibsError("CLOSED", "This dibs was closed. Call open() for a new one."));
    this.#listeners.endAll();
    this.#closing.abort(CLOSED_REASON);
    await this.#calls.idle();
    this.#link.send(encode(["bye"]));
    await this.#link.flushed();
    this.#link.close();
  }
}

/** Never reaches a caller. */
const CLOSED_REASON = new DibsError("CLOSED", "closing");
