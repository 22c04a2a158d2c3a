/** Which page the address names. */

import { useEffect } from "preact/hooks";
import { setView } from "../api/live.ts";
import { linkTo, route } from "../router/route.ts";
import { Empty } from "../ui/empty.tsx";
import { PageHead } from "../ui/page-head.tsx";
import { Overview } from "./overview/overview.tsx";
import { QueuePage } from "./queue/queue.tsx";

export function Page() {
  const { path } = route.value;
  const [first = "", second] = path;
  const watched = first === "" ? "all" : first === "queues" ? second : undefined;
  useEffect(() => {
    setView(watched === undefined ? null : first === "" ? { queues: true } : { queue: watched });
  }, [first, watched]);
  if (first === "" || (first === "queues" && second === undefined)) return <Overview />;
  if (first === "queues") return <QueuePage key={second} name={second!} />;
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
