import type { TaskState } from "../../api/contract.ts";
import { linkTo } from "../../router/route.ts";
import { StateBadge } from "../../ui/state-badge.tsx";
import { TaskLink } from "../../ui/task-link.tsx";

export interface Child {
  id: string;
  queue: string;
  n: number;
  name: string | null;
  state: TaskState;
}

/** The tasks that a task has spawned; the first ones, if there are many. */
export function Children({ children, total }: { children: Child[]; total: number }) {
  return (
    <section class="card">
      <h2>Children</h2>
      <dl class="facts-list">
        {children.map((child) => (
          <ChildRow key={child.id} child={child} />
        ))}
      </dl>
      {children.length < total && (
        <p class="faint">
          {children.length} of {total}
        </p>
      )}
    </section>
  );
}

function ChildRow({ child: { id, queue, n, name, state } }: { child: Child }) {
  return (
    <>
      <dt>{name ?? `Child ${n}`}</dt>
      <dd>
        <TaskLink id={id} /> in <a href={linkTo(["queues", queue])}>{queue}</a> <StateBadge state={state} />
      </dd>
    </>
  );
}
