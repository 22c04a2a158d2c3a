/** Turns the frames of the stream into changes of the scene. */

import type { LiveFrame, MoveKind, MovesFrame, QueueFrame } from "../api/contract.ts";
import type { Scene } from "./cells.ts";
import { countMoves, type Flow } from "./flow.ts";
import { applyMove, type Move } from "./moves.ts";
import { applyCounts, applyLine, applyWorkers } from "./snapshot.ts";

/** The server's words for what the picture shows. Some look the same: the cell leaves its worker, or the line. */
const KINDS: Record<MoveKind, Move["kind"]> = {
  added: "added",
  claimed: "claimed",
  done: "done",
  failed: "failed",
  lost: "released",
  released: "released",
  dead: "dead",
  redriven: "ready",
  parked: "left",
  verifying: "left",
  cancelled: "removed",
  expired: "removed",
};

/** @param now on the page's clock */
export function applyFrame(scene: Scene, flow: Flow, frame: LiveFrame, now: number): void {
  if (frame.type === "moves") applyMoves(scene, flow, frame, now);
  else if (frame.type === "queue") applyQueue(scene, flow, frame, now);
  else if (frame.type === "gap") scene.gap = { missed: frame.missed + (scene.gap?.missed ?? 0), at: now };
}

function applyMoves(scene: Scene, flow: Flow, { moves, counts }: MovesFrame, now: number): void {
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  // A task that passes is added, claimed and done: it counts once.
  countMoves(flow, Math.max(counts.claimed, counts.added), now);
  scene.streaming = flow.streaming;
  if (scene.streaming) scene.flights = [];
  // Moves that came in one frame start one after the other: together they would look like one.
  const apart = moves.length > 1 ? Math.min(12, 90 / moves.length) : 0;
  moves.forEach(([kind, task, worker, attempt, at], index) => {
    const move: Move = {
      kind: KINDS[kind],
      task,
      worker: worker ?? undefined,
      attempt: attempt ?? undefined,
      at,
    };
    applyMove(scene, move, now + index * apart);
  });
  if (moves.length > 0 || total === 0) return;
  scene.ready = Math.max(0, scene.ready + counts.added + counts.redriven - counts.claimed);
  scene.dead += counts.dead;
}

function applyQueue(scene: Scene, flow: Flow, frame: QueueFrame, now: number): void {
  countMoves(flow, 0, now);
  scene.streaming = flow.streaming;
  const { depth } = frame.stats;
  applyWorkers(
    scene,
    frame.workers.map(({ id, name, donePerSecond, concurrency, claims, state, running }) => ({
      ...{ id, name, rate: donePerSecond, concurrency, claims, isLost: state === "lost" },
      running: running.map(({ task, attempt, startedAt }) => ({ task, attempt, since: startedAt })),
    })),
    now,
    frame.isRunningComplete ? frame.readAt : null,
  );
  applyLine(scene, { cells: frame.line.map(([id, attempt]) => ({ id, attempt })) });
  applyCounts(scene, { ready: depth.ready, later: depth.scheduled, dead: depth.dead });
}
