/** One queue: the live picture, what limits it, its history, and the actions on it. */

import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { QueueFrame } from "../../api/contract.ts";
import { onFrame } from "../../api/live.ts";
import { countOf, showCount, showExact, showShare } from "../../format/number.ts";
import { Counts } from "../../picture/counts.tsx";
import { Gauge } from "../../picture/gauge.tsx";
import { KneeCard } from "../../picture/knee-card.tsx";
import { LivePicture } from "../../picture/live-picture.tsx";
import { linkTo } from "../../router/route.ts";
import { may } from "../../store/access.ts";
import { reducedMotion } from "../../store/preferences.ts";
import { Button } from "../../ui/button.tsx";
import { Empty } from "../../ui/empty.tsx";
import { Fact, PageHead } from "../../ui/page-head.tsx";
import { askToPause, askToPurge } from "./actions.tsx";
import { DemoControls } from "./demo-controls.tsx";
import { HistoryCard } from "./history.tsx";
import { editPolicy } from "./policy-editor.tsx";

export function QueuePage({ name }: { name: string }) {
  const frame = useQueueFrame(name);
  if (frame === "missing") return <NoQueue name={name} />;
  return (
    <>
      <PageHead
        title={name}
        crumb={<a href={linkTo([])}>Overview</a>}
        facts={frame && <Facts frame={frame} />}
        actions={frame && <Actions frame={frame} />}
      />
      <div class="stack">
        <section class="card stage" aria-label="Live picture">
          {reducedMotion.value ? frame && <Counts frame={frame} /> : <LivePicture frame={frame} />}
          {frame && <Gauge frame={frame} />}
          <DemoControls queue={name} />
        </section>
        {frame && (
          <div class="below">
            <KneeCard frame={frame} />
            <HistoryCard queue={name} />
          </div>
        )}
      </div>
    </>
  );
}

/** The state of the queue, twice a second. */
function useQueueFrame(name: string): QueueFrame | "missing" | null {
  const frame = useMemo(() => signal<QueueFrame | "missing" | null>(null), [name]);
  useEffect(
    () =>
      onFrame((each) => {
        if (each.type === "queue" && each.queue === name) frame.value = each;
        else if (each.type === "noQueue" && each.queue === name) frame.value = "missing";
      }),
    [name],
  );
  return frame.value;
}

function Facts({ frame: { stats, workers, moreWorkers } }: { frame: QueueFrame }) {
  const { depth, queue } = stats;
  const waiting = depth.ready + depth.waiting;
  const present = workers.filter(({ state }) => state !== "lost").length + moreWorkers;
  return (
    <>
      <Fact value={showCount(waiting)} of="waiting" exact={showExact(waiting)} />
      <Fact
        value={String(present)}
        of={present === 1 ? "worker" : "workers"}
        tone={present === 0 && waiting > 0 ? "amber" : undefined}
      />
      <Fact value={showShare(stats.failureRate)} of="failing" />
      {depth.dead > 0 && (
        <a href={linkTo(["dead"], { queue })}>
          <Fact
            value={showCount(depth.dead)}
            of="dead"
            tone="red"
            exact={countOf(depth.dead, "dead letter")}
          />
        </a>
      )}
    </>
  );
}

function Actions({ frame: { stats, policy } }: { frame: QueueFrame }) {
  const { queue, paused, depth } = stats;
  return (
    <>
      <a class="button" href={linkTo(["tasks"], { q: `queue:${queue}` })}>
        Tasks
      </a>
      <Button onClick={() => editPolicy(queue, policy, may("admin", queue))}>Policy</Button>
      {may("admin", queue) && (
        <>
          <Button danger onClick={() => askToPurge(queue, depth)}>
            Purge
          </Button>
          <Button onClick={() => askToPause(queue, paused, depth)}>{paused ? "Resume" : "Pause"}</Button>
        </>
      )}
    </>
  );
}

function NoQueue({ name }: { name: string }) {
  return (
    <>
      <PageHead title={name} crumb={<a href={linkTo([])}>Overview</a>} />
      <Empty title="There is no queue with this name." commands={[`dibs add ${name} '{}'`]}>
        It is created by its first task, and this page then shows it by itself.
      </Empty>
    </>
  );
}
