/** Pools: how many workers each keeps, and every decision with its reasons. */

import { call } from "../../api/call.ts";
import { countOf } from "../../format/number.ts";
import { linkTo } from "../../router/route.ts";
import { now } from "../../store/clock.ts";
import { useResource } from "../../store/resource.ts";
import { Empty } from "../../ui/empty.tsx";
import { Loaded } from "../../ui/loaded.tsx";
import { PageHead } from "../../ui/page-head.tsx";
import { type Decision, Decisions } from "./decisions.tsx";

interface Pool {
  name: string;
  host: string;
  pid: number;
  queues: string[];
  heldUntil: number | null;
  report: {
    size: number;
    reasons: string[];
    mode: string;
    min: number;
    max: number;
    workers: { live: number; busy: number; starting: number };
  };
  decisions: Decision[];
}

export function PoolsPage() {
  const resource = useResource(load, [], 5_000);
  return (
    <>
      <PageHead title="Pools" />
      <Loaded from={resource}>
        {(pools) =>
          pools.length === 0 ? (
            <Empty title="No pool runs." commands={["dibs pool emails --min 1 --max 20 -- node worker.js"]}>
              A pool starts as many workers as its queues need, and says why.
            </Empty>
          ) : (
            <div class="stack">
              {pools.map((pool) => (
                <PoolCard key={pool.name} pool={pool} />
              ))}
            </div>
          )
        }
      </Loaded>
    </>
  );
}

async function load(signal: AbortSignal): Promise<Pool[]> {
  const { pools } = await call<{ pools: Omit<Pool, "decisions">[] }>("v1/pools", {
    query: { limit: 100 },
    signal,
  });
  return Promise.all(
    pools.map(async (pool) => {
      const path = `v1/pools/${encodeURIComponent(pool.name)}/decisions`;
      return { ...pool, ...(await call<{ decisions: Decision[] }>(path, { query: { limit: 20 }, signal })) };
    }),
  );
}

function PoolCard({ pool: { name, host, pid, queues, heldUntil, report, decisions } }: { pool: Pool }) {
  const isHeld = heldUntil !== null && heldUntil > now.value;
  const { size, min, max, mode, workers } = report;
  return (
    <section class="card">
      <div class="card-head">
        <h2>{name}</h2>
        {!isHeld && <span class="badge amber">no process looks after it</span>}
        <span class="quiet">
          {countOf(size, "worker")} wanted, from {min} to {max}, for{" "}
          {mode === "cost" ? "low cost" : "short waits"};{" "}
          {queues.map((queue) => (
            <a key={queue} class="gap-right" href={linkTo(["queues", queue])}>
              {queue}
            </a>
          ))}
        </span>
        <span class="quiet">
          {host} {pid}
        </span>
      </div>
      <SizeBar min={min} max={max} size={size} live={workers.live} />
      <Decisions decisions={decisions} />
    </section>
  );
}

/** How many of the most workers there are. */
function SizeBar({ max, size, live }: { min: number; max: number; size: number; live: number }) {
  const shown = Math.min(max, 60);
  return (
    <div class="sizes" role="img" aria-label={`${live} of at most ${max} workers live, ${size} wanted`}>
      {Array.from({ length: shown }, (_, at) => (
        <i key={at} class={at < live ? "live" : at < size ? "wanted" : undefined} />
      ))}
    </div>
  );
}
