import type { ClaimRef } from "../../src/core/task/task.ts";
import type { Verified } from "../../src/core/handler/verification.ts";
import type { Op, Outcome } from "../../src/engine/engine.ts";

/** What a driver remembers of its answers, so that it can ask about things that exist, or once did. */
export class Known {
  readonly ids: string[] = [];
  /** Runs that were begun. */
  readonly runs: string[] = [];
  /** Tasks that have spawned. */
  readonly parents: string[] = [];
  /** Claims that may still be valid. Some will have been lost. */
  readonly claims: ClaimRef[] = [];
  /** What verifiers were asked about, by the fence of their claim. */
  readonly asked = new Map<number, Verified>();
  /** Claims that have ended: every verb must refuse them. */
  readonly stale: ClaimRef[] = [];
  readonly sessions: { id: number; worker: string; queues: string[] }[] = [];
  readonly cursors = new Map<string, number>();
  readonly patterns: string[] = [];
  /** Purges and pages in progress. */
  readonly purges: { queue: string; upTo: number }[] = [];
  readonly pages: Op<"list">[] = [];
  /** The last known value of a document. */
  readonly documents = new Map<string, string>();
  /** The last known engine time. */
  now = Date.UTC(2026, 0, 15, 12);

  learn(op: Op, outcome: Outcome): void {
    if ("refused" in outcome) {
      if ("fence" in op && outcome.refused.code === "CLAIM_LOST") this.#isOver(op);
      return;
    }
    switch (op.verb) {
      case "add":
      case "publish":
        this.ids.push(...answer<"add">(outcome).map((task) => task.id));
        break;
      case "spawn":
        this.ids.push(...answer<"spawn">(outcome).flatMap(({ id, existing }) => (existing ? [] : id)));
        if (!this.parents.includes(op.id)) this.parents.push(op.id);
        break;
      case "claim":
        for (const { id, fence, queue, data, run } of answer<"claim">(outcome).tasks) {
          this.claims.push({ id, fence });
          // Tasks that the engine adds to a run appear here first.
          if (run && !this.ids.includes(id)) this.ids.push(id);
          if (run && !this.runs.includes(run.id)) this.runs.push(run.id);
          if (queue.endsWith("/verify")) this.asked.set(fence, JSON.parse(data as string) as Verified);
        }
        break;
      case "settle":
        this.#isOver(op);
        break;
      case "join":
        this.sessions.push({
          id: answer<"join">(outcome).session,
          worker: op.worker.id,
          queues: op.worker.queues,
        });
        break;
      case "rejoin": {
        const { session } = answer<"rejoin">(outcome);
        const old = this.sessions.find(({ id }) => id === op.session);
        this.sessions.push({ id: session, worker: old?.worker ?? "w", queues: old?.queues ?? [] });
        break;
      }
      case "leave":
        // Mostly forgotten. A few are remembered, for verbs of a session that is gone.
        if (this.sessions.length > 3) remove(this.sessions, (session) => session.id === op.session);
        break;
      case "put":
        if (op.expect !== undefined && op.expect !== answer<"put">(outcome).before) break;
        if (op.value === null) this.documents.delete(op.name);
        else this.documents.set(op.name, op.value);
        break;
      case "housekeep":
        this.now = answer<"housekeep">(outcome).now;
        break;
      case "listen":
        this.cursors.set(op.listener, answer<"listen">(outcome).cursor);
        break;
      case "patterns":
        if (op.by === "fingerprint")
          this.patterns.push(...answer<"patterns">(outcome).map(({ pattern }) => pattern));
        break;
      case "purge": {
        const { more, upTo } = answer<"purge">(outcome);
        remove(this.purges, (purge) => purge.queue === op.queue && purge.upTo === upTo);
        if (more) this.purges.push({ queue: op.queue, upTo });
        break;
      }
      case "list": {
        const { next, tasks } = answer<"list">(outcome);
        if (next !== null) this.pages.push({ ...op, after: next });
        for (const { error } of tasks) if (error) this.patterns.push(error.fingerprint);
        break;
      }
      default:
    }
  }

  #isOver({ id, fence }: ClaimRef): void {
    remove(this.claims, (claim) => claim.id === id && claim.fence === fence);
    this.stale.push({ id, fence });
  }
}

/** The answer of a verb that was not refused. */
export function answer<V extends Op["verb"]>(outcome: Outcome): Extract<Outcome<V>, { ok: unknown }>["ok"] {
  return (outcome as Extract<Outcome<V>, { ok: unknown }>).ok;
}

function remove<T>(list: T[], matches: (item: T) => boolean): void {
  const index = list.findIndex(matches);
  if (index >= 0) list.splice(index, 1);
}
