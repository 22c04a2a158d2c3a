/** Topics and subscriptions: a picture of what reaches whom. */

import { call } from "../../api/call.ts";
import type { QueueStats, SubscriptionRecord } from "../../api/contract.ts";
import { countOf, showCount } from "../../format/number.ts";
import { linkTo } from "../../router/route.ts";
import { useResource } from "../../store/resource.ts";
import { Empty } from "../../ui/empty.tsx";
import { Loaded } from "../../ui/loaded.tsx";
import { Fact, PageHead } from "../../ui/page-head.tsx";

interface Subscription extends SubscriptionRecord {
  stats: QueueStats | null;
}

const REFRESH_MS = 5_000;
/** Numbers are shown for so many; the others are drawn without. */
const WITH_NUMBERS = 60;

export function TopicsPage() {
  const resource = useResource(load, [], REFRESH_MS);
  const all = resource.value ?? [];
  const patterns = Map.groupBy(all, ({ pattern }) => pattern);
  return (
    <>
      <PageHead
        title="Topics"
        facts={
          all.length > 0 && (
            <>
              <Fact value={String(patterns.size)} of={patterns.size === 1 ? "pattern" : "patterns"} />
              <Fact value={String(all.length)} of={all.length === 1 ? "subscription" : "subscriptions"} />
            </>
          )
        }
      />
      <Loaded from={resource}>
        {() =>
          all.length === 0 ? (
            <Empty
              title="Nobody subscribes to a topic."
              commands={[`dibs.topic("order.placed").subscribe("inventory", handler)`]}
            >
              What is published to a topic reaches every group that subscribes to it. Each group has its own
              queue.
            </Empty>
          ) : (
            <div class="card topics">
              {[...patterns].map(([pattern, subscriptions]) => (
                <Pattern key={pattern} pattern={pattern} subscriptions={subscriptions} />
              ))}
            </div>
          )
        }
      </Loaded>
    </>
  );
}

async function load(signal: AbortSignal): Promise<Subscription[]> {
  const query = { limit: 1_000 };
  const { subscriptions } = await call<{ subscriptions: SubscriptionRecord[] }>("v1/subscriptions", {
    query,
    signal,
  });
  const stats = await Promise.all(
    subscriptions
      .slice(0, WITH_NUMBERS)
      .map(({ queue }) =>
        call<QueueStats>(`v1/queues/${encodeURIComponent(queue)}`, { signal }).catch(() => null),
      ),
  );
  return subscriptions.map((each, at) => ({ ...each, stats: stats[at] ?? null }));
}

const ROW = 44;

/** The pattern on the left, its groups on the right, and a line to each. */
function Pattern({ pattern, subscriptions }: { pattern: string; subscriptions: Subscription[] }) {
  const height = subscriptions.length * ROW;
  const middle = height / 2;
  return (
    <section class="topic" aria-label={`${pattern} reaches ${countOf(subscriptions.length, "group")}`}>
      <div class="topic-pattern">
        <span class="code">{pattern}</span>
        <span class="quiet">{describePattern(pattern)}</span>
      </div>
      <svg
        class="topic-lines"
        viewBox={`0 0 100 ${height}`}
        preserveAspectRatio="none"
        style={{ height: `${height}px` }}
        aria-hidden="true"
      >
        {subscriptions.map(({ group }, at) => {
          const y = at * ROW + ROW / 2;
          return (
            <path
              key={group}
              d={`M0 ${middle}C50 ${middle} 50 ${y} 100 ${y}`}
              fill="none"
              stroke="var(--line-strong)"
              stroke-width="1.5"
              vector-effect="non-scaling-stroke"
            />
          );
        })}
      </svg>
      <ul>
        {subscriptions.map(({ group, queue, stats }) => (
          <li key={group}>
            <a class="topic-group" href={linkTo(["queues", queue])}>
              <b class="clip">{group}</b>
              {stats && (
                <span class="quiet">
                  {showCount(stats.depth.ready + stats.depth.waiting)} waiting,{" "}
                  {countOf(stats.workers, "worker")}
                  {stats.depth.dead > 0 && <span class="red">, {showCount(stats.depth.dead)} dead</span>}
                </span>
              )}
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}

function describePattern(pattern: string): string {
  const words = pattern.split(".");
  if (words.includes("#")) return "this and any words in place of #";
  return words.includes("*") ? "any one word in place of *" : "this topic only";
}
