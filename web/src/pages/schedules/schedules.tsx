/** Schedules: the next five times, fire now, pause. */

import { call } from "../../api/call.ts";
import type { ScheduleRecord } from "../../api/contract.ts";
import { writeDuration } from "../../format/duration.ts";
import { quote } from "../../format/shell.ts";
import { go, linkTo } from "../../router/route.ts";
import { may } from "../../store/access.ts";
import { now } from "../../store/clock.ts";
import { useResource } from "../../store/resource.ts";
import { Ago, Instant } from "../../ui/ago.tsx";
import { Button } from "../../ui/button.tsx";
import { ask } from "../../ui/dialog.tsx";
import { Empty } from "../../ui/empty.tsx";
import { Loaded } from "../../ui/loaded.tsx";
import { PageHead } from "../../ui/page-head.tsx";
import { say, sayError } from "../../ui/toast.tsx";

const NEXT = 5;

export function SchedulesPage() {
  const resource = useResource(
    (signal) => call<{ schedules: ScheduleRecord[] }>("v1/schedules", { query: { limit: 500 }, signal }),
    [],
    5_000,
  );
  return (
    <>
      <PageHead title="Schedules" />
      <Loaded from={resource}>
        {({ schedules }) =>
          schedules.length === 0 ? (
            <Empty
              title="Nothing is scheduled."
              commands={[`dibs.schedule("nightly", { cron: "0 3 * * *" }, { queue: "reports", data })`]}
            >
              A schedule adds a task at fixed times, once for all processes.
            </Empty>
          ) : (
            <div class="stack">
              {schedules.map((schedule) => (
                <Schedule key={schedule.name} schedule={schedule} reload={resource.reload} />
              ))}
            </div>
          )
        }
      </Loaded>
    </>
  );
}

function Schedule({ schedule, reload }: { schedule: ScheduleRecord; reload: () => void }) {
  const { name, cron, tz, every, paused, task, next, lastAt, error } = schedule;
  return (
    <section class="card">
      <div class="card-head">
        <h2>{name}</h2>
        {paused && <span class="badge amber">paused</span>}
        <span class="quiet">
          <span class="code">{cron ?? `every ${writeDuration(every ?? 0)}`}</span>
          {cron !== null && ` ${tz ?? "UTC"}`}, adds to{" "}
          <a href={linkTo(["queues", task.queue])}>{task.queue}</a>
        </span>
        {may("admin", task.queue) && <Actions schedule={schedule} reload={reload} />}
      </div>
      <ol class="times" aria-label="Next times">
        {next.slice(0, NEXT).map((at) => (
          <li key={at}>
            <Instant at={at} /> <span class="quiet">{at <= now.value ? "due now" : <Ago at={at} />}</span>
          </li>
        ))}
      </ol>
      <p class="quiet">
        {lastAt === null ? (
          "It has not fired yet."
        ) : (
          <>
            Last fired <Ago at={lastAt} />.
          </>
        )}
        {error && <span class="red"> The last time failed: {error.message}</span>}
      </p>
    </section>
  );
}

function Actions({
  schedule: { name, paused, task },
  reload,
}: {
  schedule: ScheduleRecord;
  reload: () => void;
}) {
  const path = `v1/schedules/${encodeURIComponent(name)}`;
  function askToFire() {
    ask({
      title: `Fire ${name} now?`,
      children: `This adds its task to ${task.queue} at once. Its plan stays as it is.`,
      ...{ action: "Add 1 task", command: `dibs schedules fire ${quote(name)}` },
      run: async () => {
        const { id } = await call<{ id: string }>(`${path}/fire`, { method: "POST" });
        say("The task is added.", { label: "Open it", run: () => go(linkTo(["tasks", id])) });
        reload();
      },
    });
  }
  async function pause() {
    try {
      await call(`${path}/${paused ? "resume" : "pause"}`, { method: "POST" });
      say(paused ? `${name} fires again.` : `${name} is paused.`);
      reload();
    } catch (error) {
      sayError(error);
    }
  }
  return (
    <span class="row">
      <Button small onClick={askToFire}>
        Fire now
      </Button>
      <Button small onClick={() => void pause()}>
        {paused ? "Resume" : "Pause"}
      </Button>
    </span>
  );
}
