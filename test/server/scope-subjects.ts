import type { Port } from "../../src/core/port.ts";
import type { SuperviseCall } from "../../src/core/supervision.ts";
import type { WireVerb } from "../../src/protocol/verbs.ts";

/** One of everything that a verb can name, all in one queue or belonging to it. */
export interface Subject {
  queue: string;
  topic: string;
  schedule: string;
  pool: string;
  pipeline: string;
  task: string;
  done: string;
  run: string;
  held: { id: string; fence: number; queue: string; attempt: number };
  verifying: { id: string; fence: number };
  session: number;
}

const NOWHERE = "01980000-0000-7000-8000-00000000ffff";
const STAGES = [{ name: "a", joins: false }];
const CANARY = "canary-payload";
const worker = (queue: string) => ({
  ...{ id: `w-${queue}`, name: "w", queues: [queue], concurrency: 1, host: "h", pid: 1 },
});
const claimCall = (queue: string) => ({ queues: [queue], max: 1, worker: "w", wait: 0 });
const every = (queue: string) =>
  ({ every: 3_600_000, missed: "once", task: { queue, data: CANARY } }) as const;

const supervision = (name: string, queue: string): SuperviseCall => ({
  ...{ kind: "pool", name, holder: "h", host: "h", pid: 1, queues: [queue], lease: 60_000 },
  report: JSON.stringify(CANARY),
  entries: [{ type: "pool.started", queue, reasons: [CANARY] }],
});

const namesIn = (queue: string) => ({
  ...{ queue, topic: `${queue}.t`, schedule: `s-${queue}`, pool: `p-${queue}`, pipeline: `${queue}.p` },
});

export async function makeSubject(store: Port, queue: string): Promise<Subject> {
  const names = namesIn(queue);
  const claimed = async () => (await store.claim(claimCall(queue))).tasks[0]!;
  const add = async (to: string) => (await store.add([{ queue: to, data: CANARY }]))[0]!.id;
  const done = await add(queue);
  await store.settle(await claimed(), { kind: "ack", result: CANARY });
  await add(queue);
  const held = await claimed();
  const task = await add(queue);
  const verified = `${queue}.v`;
  await store.declare(verified, { verified: true });
  await add(verified);
  const pending = (await store.claim(claimCall(verified))).tasks[0]!;
  await store.settle(pending, { kind: "ack", result: CANARY });
  await store.subscribe(names.topic, "g", {});
  await store.schedule(names.schedule, every(queue));
  await store.supervise(supervision(names.pool, queue));
  await store.definePipeline(names.pipeline, STAGES);
  const run = { pipeline: names.pipeline, stages: STAGES };
  const [first] = await store.add([{ queue: `${names.pipeline}/a`, data: CANARY, run }]);
  const session = await store.join(worker(queue), 600_000, () => {});
  return {
    ...names,
    task,
    done,
    run: first!.id,
    held,
    verifying: { id: pending.id, fence: pending.fence },
    session,
  };
}

/** A subject of which nothing exists. */
export function absentSubject(queue: string): Subject {
  const held = { id: NOWHERE, fence: 4_000_000_000, queue, attempt: 1 };
  return {
    ...{ ...namesIn(queue), task: NOWHERE, done: NOWHERE, run: NOWHERE, held, verifying: held },
    session: 4_000_000_000,
  };
}

/** The state of a subject. It must not change by a refused call. */
export async function snapshotOf(store: Port, subject: Subject): Promise<string> {
  const { queue, topic, schedule, pipeline, task, run, held, verifying } = subject;
  const found = await Promise.all([
    store.queues({ queue }),
    store.stats(queue).then(({ depth }) => depth),
    ...[task, held.id, verifying.id].map((id) => store.task(id)),
    store.steps(held.id),
    store.steps(task),
    store.subscriptions({ topic }),
    store.schedules({ name: schedule }),
    store.schedules({ name: `new-${queue}` }),
    store.pipelines({ name: pipeline }),
    store.supervised("pool", { name: `new-${queue}` }),
    store.run(run).then((page) => page.run.state),
    store.workers({ queue }).then(({ items }) => items.map(({ id }) => id)),
  ]);
  return JSON.stringify(found);
}

/** Every verb of the port, called on a subject. */
export const CALLS: Record<WireVerb, (port: Port, subject: Subject, store: Port) => Promise<unknown>> = {
  declare: (port, { queue }) => port.declare(queue, { maxAttempts: 2 }),
  pause: (port, { queue }) => port.pause(queue, true),
  unhold: (port, { queue }) => port.unhold(queue),
  queues: (port, { queue }) => port.queues({ queue }),
  stats: (port, { queue }) => port.stats(queue),
  purge: (port, { queue }) => port.purge(queue),
  drop: (port, { queue }) => port.drop(queue),
  add: (port, { queue }) => port.add([{ queue, data: "{}" }]),
  subscribe: (port, { topic }) => port.subscribe(topic, "g2", {}),
  unsubscribe: (port, { topic }) => port.unsubscribe(topic, "g"),
  subscriptions: (port, { topic }) => port.subscriptions({ topic }),
  publish: (port, { topic }) => port.publish({ topic, data: "{}" }),
  schedule: (port, { queue }) => port.schedule(`new-${queue}`, every(queue)),
  pauseSchedule: (port, { schedule }) => port.pauseSchedule(schedule, true),
  unschedule: (port, { schedule }) => port.unschedule(schedule),
  fireSchedule: (port, { schedule }) => port.fireSchedule(schedule),
  schedules: (port, { schedule }) => port.schedules({ name: schedule }),
  supervise: (port, { queue }) => port.supervise(supervision(`new-${queue}`, queue)),
  supervised: (port, { pool }) => port.supervised("pool", { name: pool }),
  decisions: (port, { pool }) => port.decisions("pool", pool, 10),
  claim: (port, { queue }) => port.claim(claimCall(queue)),
  settle: (port, { held }) => port.settle(held, { kind: "ack", result: null }),
  extend: (port, { held }) => port.extend(held, 60_000),
  progress: (port, { held }) => port.progress(held, 0.5, null),
  step: (port, { held }) => port.step(held, "plan", null),
  spawn: (port, { held, queue }) => port.spawn(held, [{ name: "a", task: { queue, data: "{}" } }]),
  children: (port, { task }) => port.children(task),
  steps: (port, { task }) => port.steps(task),
  signal: (port, { task }) => port.signal(task, "approval", null),
  verifying: (port, { verifying }) => port.verifying(verifying),
  task: (port, { task }) => port.task(task),
  history: (port, { held }) => port.history(held.id),
  cancel: (port, { task }) => port.cancel(task),
  change: (port, { task }) => port.change(task, { kind: "update", priority: 7 }),
  end: (port, { done }) => port.end(done, { timeout: 0 }),
  list: (port, { queue }) => port.list({ queue, state: "ready", limit: 10 }),
  definePipeline: (port, { queue }) => port.definePipeline(`${queue}.new`, STAGES),
  pipelines: (port, { pipeline }) => port.pipelines({ name: pipeline }),
  run: (port, { run }) => port.run(run),
  runs: (port, { pipeline }) => port.runs({ pipeline }),
  cancelRun: (port, { run }) => port.cancelRun(run),
  patterns: (port, { queue }) => port.patterns(queue, "fingerprint", 10),
  redrive: (port, { queue }) => port.redrive(queue, {}, 0),
  discard: (port, { queue }) => port.discard(queue, {}),
  join: (port, { queue }) => port.join(worker(queue), 60_000, () => {}),
  reconcile: (port, { session }) => port.reconcile(session, []),
  rejoin: (port, { session }) => port.rejoin(session, [], () => {}),
  retire: (port, { session }) => port.retire(session),
  leave: async (port, { session, queue }, store) => {
    const before = (await store.workers({ queue })).items.length;
    await port.leave(session);
    return { left: before - (await store.workers({ queue })).items.length };
  },
  workers: (port, { queue }) => port.workers({ queue }),
};

export const JOINED_AS_SELF = new Set<WireVerb>(["reconcile", "rejoin", "retire", "leave"]);

/** A session of the caller's own, if it may have one. */
export async function joinAsSelf(port: Port, subject: Subject): Promise<Subject> {
  try {
    const info = { ...worker(subject.queue), id: `own-${subject.queue}` };
    return { ...subject, session: await port.join(info, 60_000, () => {}) };
  } catch {
    return subject;
  }
}

type HttpRequest = [method: string, path: string, body?: unknown];

/** An answer without the subject's own values, so that answers on two subjects can be compared. */
export function plain(value: unknown, { queue }: Pick<Subject, "queue">): string {
  return (JSON.stringify(value) ?? "")
    .replaceAll(queue, "QUEUE")
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "ID")
    .replaceAll(/\d{3,}|(?<=fence )\d+|(?<=Session )\d+|(?<=\/)\d+(?=\/)|(?<="fence\\?":)\d+/g, "N");
}

const at = encodeURIComponent;
const ofClaim = ({ held }: Subject): string => `/v1/claims/${held.id}/${held.fence}`;

/** The HTTP paths of the verbs. */
export const REQUESTS: Partial<Record<WireVerb, (subject: Subject) => HttpRequest>> = {
  declare: ({ queue }) => ["PUT", `/v1/queues/${at(queue)}`, { maxAttempts: 2 }],
  pause: ({ queue }) => ["POST", `/v1/queues/${at(queue)}/pause`],
  unhold: ({ queue }) => ["POST", `/v1/queues/${at(queue)}/unhold`, {}],
  stats: ({ queue }) => ["GET", `/v1/queues/${at(queue)}`],
  purge: ({ queue }) => ["POST", `/v1/queues/${at(queue)}/purge`],
  drop: ({ queue }) => ["DELETE", `/v1/queues/${at(queue)}`],
  add: ({ queue }) => ["POST", `/v1/queues/${at(queue)}/tasks`, { data: 1 }],
  subscribe: ({ topic }) => ["PUT", `/v1/subscriptions/${at(topic)}/g2`],
  unsubscribe: ({ topic }) => ["DELETE", `/v1/subscriptions/${at(topic)}/g`],
  subscriptions: ({ topic }) => ["GET", `/v1/subscriptions?topic=${at(topic)}`],
  publish: ({ topic }) => ["POST", `/v1/topics/${at(topic)}/messages`, { data: 1 }],
  schedule: ({ queue }) => ["PUT", `/v1/schedules/new-${queue}`, { every: 3_600_000, task: { queue } }],
  pauseSchedule: ({ schedule }) => ["POST", `/v1/schedules/${schedule}/pause`],
  unschedule: ({ schedule }) => ["DELETE", `/v1/schedules/${schedule}`],
  fireSchedule: ({ schedule }) => ["POST", `/v1/schedules/${schedule}/fire`],
  schedules: ({ schedule }) => ["GET", `/v1/schedules/${schedule}`],
  decisions: ({ pool }) => ["GET", `/v1/pools/${pool}/decisions`],
  claim: ({ queue }) => ["POST", `/v1/queues/${at(queue)}/claims`, {}],
  settle: (subject) => ["POST", `${ofClaim(subject)}/nack`, { error: { message: "no" } }],
  extend: (subject) => ["POST", `${ofClaim(subject)}/extend`, { lease: 60_000 }],
  progress: (subject) => ["POST", `${ofClaim(subject)}/progress`, { value: 0.5 }],
  step: (subject) => ["PUT", `${ofClaim(subject)}/steps/plan`, { value: 1 }],
  spawn: (subject) => [
    "POST",
    `${ofClaim(subject)}/children`,
    { children: [{ name: "a", queue: subject.queue, data: 1 }] },
  ],
  children: ({ task }) => ["GET", `/v1/tasks/${task}/children`],
  steps: ({ task }) => ["GET", `/v1/tasks/${task}/steps`],
  signal: ({ task }) => ["POST", `/v1/tasks/${task}/signals/approval`, {}],
  verifying: ({ verifying: { id, fence } }) => ["GET", `/v1/verifying/${id}/${fence}`],
  task: ({ task }) => ["GET", `/v1/tasks/${task}`],
  history: ({ held }) => ["GET", `/v1/tasks/${held.id}/history`],
  cancel: ({ task }) => ["POST", `/v1/tasks/${task}/cancel`],
  change: ({ task }) => ["POST", `/v1/tasks/${task}/update`, { priority: 7 }],
  end: ({ done }) => ["GET", `/v1/tasks/${done}/result`],
  join: ({ queue }) => ["POST", "/v1/sessions", { worker: "w", queues: [queue] }],
  list: ({ queue }) => ["GET", `/v1/queues/${at(queue)}/tasks?state=ready`],
  definePipeline: ({ queue }) => ["PUT", `/v1/pipelines/${queue}.new`, { stages: STAGES }],
  run: ({ run }) => ["GET", `/v1/runs/${run}`],
  runs: ({ pipeline }) => ["GET", `/v1/pipelines/${at(pipeline)}/runs`],
  cancelRun: ({ run }) => ["POST", `/v1/runs/${run}/cancel`],
  patterns: ({ queue }) => ["GET", `/v1/queues/${at(queue)}/dead/patterns`],
  redrive: ({ queue }) => ["POST", `/v1/queues/${at(queue)}/dead/redrive`, {}],
  discard: ({ queue }) => ["POST", `/v1/queues/${at(queue)}/dead/discard`, {}],
  workers: ({ queue }) => ["GET", `/v1/workers?queue=${at(queue)}`],
};
