/** Dead letters as an inbox: kinds of failure on the left, the chosen one beside them. */

import { call } from "../../api/call.ts";
import type { DeadOverview } from "../../api/contract.ts";
import { countOf, showCount, showShare } from "../../format/number.ts";
import { filter, linkTo, route } from "../../router/route.ts";
import { useResource } from "../../store/resource.ts";
import { Ago } from "../../ui/ago.tsx";
import { Empty } from "../../ui/empty.tsx";
import { Loaded } from "../../ui/loaded.tsx";
import { Fact, PageHead } from "../../ui/page-head.tsx";
import { GroupDetail } from "./group-detail.tsx";
import { GroupTitle } from "./group-title.tsx";

export type DeadGroup = DeadOverview["groups"][number];

const GROUPINGS: [by: string, name: string][] = [
  ["fingerprint", "By error"],
  ["worker", "By worker"],
];
const REFRESH_MS = 5_000;

export function DeadPage() {
  const { query } = route.value;
  const by = query.get("by") ?? "fingerprint";
  const queue = query.get("queue");
  const resource = useResource(
    (signal) => call<DeadOverview>("v1/dead", { query: { by }, signal }),
    [by],
    REFRESH_MS,
  );
  const groups = (resource.value?.groups ?? []).filter((group) => queue === null || group.queue === queue);
  const chosen =
    groups.find(({ pattern, queue: of }) => pattern === query.get("pattern") && of === query.get("of")) ??
    groups[0];
  const total = resource.value?.total ?? 0;
  return (
    <>
      <PageHead
        title="Dead letters"
        facts={
          total > 0 && (
            <>
              <Fact value={showCount(total)} of="in all queues" tone="red" />
              {queue !== null && (
                <span>
                  of {queue} only, <a href={linkTo(["dead"])}>show all</a>
                </span>
              )}
            </>
          )
        }
        actions={total > 0 && <Grouping by={by} />}
      />
      <Loaded from={resource}>
        {() =>
          chosen === undefined ? (
            <Empty title="No dead letters.">
              A task that used up its attempts, or was rejected, waits here with its whole history until
              somebody has looked at it.
            </Empty>
          ) : (
            <div class="inbox">
              <ul class="card flush inbox-list" aria-label="Kinds of failure">
                {groups.map((group) => (
                  <GroupItem
                    key={`${group.queue} ${group.pattern}`}
                    group={group}
                    by={by}
                    isChosen={group === chosen}
                  />
                ))}
              </ul>
              <GroupDetail
                key={`${chosen.queue} ${chosen.pattern} ${by}`}
                group={chosen}
                by={by}
                reload={resource.reload}
              />
            </div>
          )
        }
      </Loaded>
    </>
  );
}

function Grouping({ by }: { by: string }) {
  const header = by.startsWith("header:") ? by.slice(7) : "";
  return (
    <>
      <div class="tabs" role="group" aria-label="Group by">
        {GROUPINGS.map(([key, name]) => (
          <button
            key={key}
            type="button"
            class="tab"
            aria-pressed={by === key}
            onClick={() => filter({ by: key, pattern: null })}
          >
            {name}
          </button>
        ))}
      </div>
      <input
        class="input header-name"
        aria-label="Group by a header"
        placeholder="by header, such as type"
        value={header}
        onChange={(event) => {
          const name = event.currentTarget.value.trim();
          filter({ by: name === "" ? null : `header:${name}`, pattern: null });
        }}
      />
    </>
  );
}

function GroupItem({ group, by, isChosen }: { group: DeadGroup; by: string; isChosen: boolean }) {
  const { queue, pattern, count, share, lastAt } = group;
  const { query } = route.value;
  const address = linkTo(["dead"], { ...Object.fromEntries(query), pattern, of: queue });
  return (
    <li>
      <a class="inbox-item" href={address} aria-current={isChosen ? "true" : undefined}>
        <span class="inbox-top">
          <b class="clip">
            <GroupTitle pattern={pattern} by={by} />
          </b>
          <span class="red">{showCount(count)}</span>
        </span>
        <span class="inbox-top quiet">
          <span class="clip">{queue}</span>
          <Ago at={lastAt} />
        </span>
        <span class="share" title={`${showShare(share)} of the dead letters of ${queue}`}>
          <i style={{ transform: `scaleX(${share})` }} />
        </span>
        <span class="unseen">{countOf(count, "dead letter")}</span>
      </a>
    </li>
  );
}
