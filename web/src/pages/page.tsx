/** Which page the address names. */

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { setView } from "../api/live.ts";
import { linkTo, route } from "../router/route.ts";
import { Empty } from "../ui/empty.tsx";
import { PageHead } from "../ui/page-head.tsx";
import { AlertsPage } from "./alerts/alerts.tsx";
import { AuditPage } from "./audit/audit.tsx";
import { DeadPage } from "./dead/dead.tsx";
import { Overview } from "./overview/overview.tsx";
import { PipelinesPage } from "./pipelines/pipelines.tsx";
import { RunPage } from "./pipelines/run.tsx";
import { PoolsPage } from "./pools/pools.tsx";
import { QueuePage } from "./queue/queue.tsx";
import { SchedulesPage } from "./schedules/schedules.tsx";
import { TaskPage } from "./task/task.tsx";
import { TasksPage } from "./tasks/tasks.tsx";
import { TopicsPage } from "./topics/topics.tsx";
import { WorkersPage } from "./workers/workers.tsx";

const PAGES: Record<string, (name: string | undefined) => ComponentChildren> = {
  "": () => <Overview />,
  queues: (name) => (name === undefined ? <Overview /> : <QueuePage key={name} name={name} />),
  tasks: (id) => (id === undefined ? <TasksPage /> : <TaskPage key={id} id={id} />),
  workers: () => <WorkersPage />,
  dead: () => <DeadPage />,
  topics: () => <TopicsPage />,
  pipelines: (name) => <PipelinesPage key={name} name={name} />,
  runs: (id) => (id === undefined ? <NoPage /> : <RunPage key={id} id={id} />),
  schedules: () => <SchedulesPage />,
  pools: () => <PoolsPage />,
  alerts: () => <AlertsPage />,
  audit: () => <AuditPage />,
};

export function Page() {
  const [first = "", second] = route.value.path;
  const isOverview = first === "" || (first === "queues" && second === undefined);
  const queue = first === "queues" ? second : undefined;
  useEffect(() => {
    setView(isOverview ? { queues: true } : queue === undefined ? null : { queue });
  }, [isOverview, queue]);
  return <>{Object.hasOwn(PAGES, first) ? PAGES[first]!(second) : <NoPage />}</>;
}

function NoPage() {
  return (
    <>
      <PageHead title="There is no such page" />
      <Empty title="Nothing is here.">
        The address may be mistyped, or from another version. <a href={linkTo([])}>All queues</a> is a good
        place to start.
      </Empty>
    </>
  );
}
