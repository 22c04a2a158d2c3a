/** The live picture of one queue: producers, the line, the workers that compete for its head, and the dead letters. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { QueueFrame } from "../api/contract.ts";
import { onFrame } from "../api/live.ts";
import { countOf } from "../format/number.ts";
import { go, linkTo } from "../router/route.ts";
import { isDark } from "../store/preferences.ts";
import type { Cell } from "./cells.ts";
import { gateOf } from "./gate.ts";
import { Spoken } from "./spoken.tsx";
import { Stage } from "./stage.ts";

export function LivePicture({ frame }: { frame: QueueFrame | null }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const stage = useRef<Stage | null>(null);
  const [over, setOver] = useState<{ cell: Cell; x: number; y: number } | null>(null);
  const dark = isDark.value;

  useEffect(() => {
    const made = new Stage(canvas.current!, dark);
    stage.current = made;
    const stopFrames = onFrame((each) => made.take(each));
    if (frame) made.take(frame);
    const observer = new ResizeObserver(() => made.resize());
    observer.observe(canvas.current!);
    return () => {
      stopFrames();
      observer.disconnect();
      made.stop();
    };
  }, []);
  useEffect(() => stage.current?.setTheme(dark), [dark]);
  useEffect(() => {
    if (!frame) return;
    stage.current?.show({
      holding: { isPaused: frame.stats.paused, gate: gateOf(frame.stats.heldBack, frame.now) },
      arrival: frame.flow.addedPerSecond,
      usual: frame.usual,
    });
  }, [frame]);

  function point(event: PointerEvent) {
    const { offsetX: x, offsetY: y } = event;
    const cell = stage.current?.cellAt(x, y) ?? null;
    setOver(cell && { cell, x, y });
  }
  return (
    <div class="picture">
      <canvas
        ref={canvas}
        role="img"
        aria-label={frame ? describe(frame) : "The live picture is loading."}
        class={over ? "over-cell" : undefined}
        onPointerMove={point}
        onPointerLeave={() => setOver(null)}
        onClick={() => over && go(linkTo(["tasks", over.cell.id]))}
      />
      {frame && <Spoken frame={frame} />}
      {over && (
        <div class="picture-note" style={{ left: `${over.x + 12}px`, top: `${over.y + 12}px` }}>
          {`${over.cell.id}\n${over.cell.attempt > 1 ? `attempt ${over.cell.attempt}` : "first attempt"}`}
        </div>
      )}
    </div>
  );
}

/** The same in words, for who does not see it. */
function describe({ stats, workers, moreWorkers }: QueueFrame): string {
  const busy = workers.filter(({ state }) => state === "busy").length;
  const all = workers.length + moreWorkers;
  const waiting = countOf(stats.depth.ready, "task");
  const dead = countOf(stats.depth.dead, "dead letter");
  return `${waiting} wait in line. ${busy} of ${countOf(all, "worker")} are busy. ${dead}.${stats.paused ? " The queue is paused." : ""}`;
}
