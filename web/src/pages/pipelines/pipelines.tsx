/** Pipelines with depth, rate and wait of each stage. */

import { call } from "../../api/call.ts";
import type { QueueStats } from "../../api/contract.ts";
import { showDuration } from "../../format/duration.ts";
import { showCount, showRate } from "../../format/number.ts";
import { linkTo } from "../../router/route.ts";
import { useResource } from "../../store/resource.ts";
import { Empty } from "../../ui/empty.tsx";
import { Loaded } from "../../ui/loaded.tsx";
import { PageHead } from "../../ui/page-head.tsx";
import { Runs } from "./runs.tsx";

export interface Stage {
  name: string;
  joins: boolean;
}

interface Pipeline {
  name: string;
  stages: (Stage & { stats: QueueStats | null })[];
}

const REFRESH_MS = 2_000;

export function PipelinesPage({ name }: { name: string | undefined }) {
  const resource = useResource((signal) => load(name, signal), [name], REFRESH_MS);
  return (
    <>
      <PageHead
        title={name ?? "Pipelines"}
        crumb={name !== undefined && <a href={linkTo(["pipelines"])}>Pipelines</a>}
      />
      <Loaded from={resource}>
        {(pipelines) =>
          pipelines.length === 0 ? (
            <Empty
              title="No pipeline is defined."
              commands={[`dibs.pipeline("report").stage("extract", extract).stage("analyse", analyse)`]}
            >
              A pipeline is a series of stages, each with its own queue and workers. It appears when a process
              works on it.
            </Empty>
          ) : (
            <div class="stack">
              {pipelines.map((pipeline) => (
                <PipelineCard key={pipeline.name} pipeline={pipeline} isAlone={name !== undefined} />
              ))}
              {name !== undefined && <Runs pipeline={name} />}
            </div>
          )
        }
      </Loaded>
    </>
  );
}

async function load(name: string | undefined, signal: AbortSignal): Promise<Pipeline[]> {
  const { pipelines } = await call<{ pipelines: { name: string; stages: Stage[] }[] }>("v1/pipelines", {
    ...{ query: { limit: 200 }, signal },
  });
  const wanted = pipelines.filter((pipeline) => name === undefined || pipeline.name === name);
  return Promise.all(
    wanted.map(async ({ name: of, stages }) => ({
      name: of,
      stages: await Promise.all(
        stages.map(async (stage) => ({ ...stage, stats: await statsOf(of, stage, signal) })),
      ),
    })),
  );
}

/** A stage that no task has reached has no queue yet. */
function statsOf(pipeline: string, { name }: Stage, signal: AbortSignal): Promise<QueueStats | null> {
  const queue = encodeURIComponent(`${pipeline}/${name}`);
  return call<QueueStats>(`v1/queues/${queue}`, { signal }).catch(() => null);
}

function PipelineCard({ pipeline: { name, stages }, isAlone }: { pipeline: Pipeline; isAlone: boolean }) {
  return (
    <section class="card">
      {!isAlone && (
        <h2>
          <a href={linkTo(["pipelines", name])}>{name}</a>
        </h2>
      )}
      <ol class="stages">
        {stages.map((stage) => (
          <StageBox key={stage.name} pipeline={name} stage={stage} />
        ))}
      </ol>
    </section>
  );
}

function StageBox({
  pipeline,
  stage: { name, joins, stats },
}: {
  pipeline: string;
  stage: Pipeline["stages"][number];
}) {
  const dead = stats?.depth.dead ?? 0;
  const waiting = stats ? stats.depth.ready + stats.depth.waiting : 0;
  return (
    <li>
      <a class="stage-box" href={linkTo(["queues", `${pipeline}/${name}`])}>
        <span class="stage-name">
          <b class="clip">{name}</b>
          {joins && <span class="quiet">joins all parts</span>}
        </span>
        <span class="stage-figures">
          <Figure name="waiting" value={showCount(waiting)} />
          <Figure name="done per second" value={showRate(stats?.rates.donePerSecond ?? 0)} />
          <Figure name="mean wait" value={showDuration(stats?.waitTime)} />
          <Figure name="workers" value={showCount(stats?.workers ?? 0)} />
          {dead > 0 && <Figure name="dead" value={showCount(dead)} tone="red" />}
        </span>
      </a>
    </li>
  );
}

function Figure({ name, value, tone }: { name: string; value: string; tone?: string }) {
  return (
    <span>
      <span class="quiet">{name}</span> <b class={tone}>{value}</b>
    </span>
  );
}
