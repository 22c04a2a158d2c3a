import type { Dibs } from "../../api/dibs.ts";
import type { QueueStats } from "../../api/queue-types.ts";
import { count, formatDuration } from "../human.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";

/** Checks of what is in a store: queues that do not move, failing schedules, silent workers. */
export async function checkQueues(dibs: Dibs): Promise<Finding[]> {
  const queues = await dibs.queues();
  const stats = await Promise.all(queues.map(({ name }) => dibs.queue(name).stats()));
  const findings = stats.flatMap(checkQueue);
  const schedules = (await dibs.schedules()).flatMap(({ name, error }) =>
    error === null
      ? []
      : [
          problem(
            "schedule",
            `The last firing of ${name} was refused: ${error.message}`,
            "Remove the cause; the schedule fires again at its next time.",
          ),
        ],
  );
  const workers = (await dibs.workers()).filter(({ silentFor }) => silentFor > SILENT_MS);
  const silent = workers.map(({ name, silentFor, host, pid }) =>
    warning(
      "worker",
      `Worker ${name} (${host}, process ${pid}) has sent no heartbeat for ${formatDuration(silentFor)}.`,
      "Its process may be frozen or cut off. Its tasks go to others when its lease ends.",
    ),
  );
  const found = [...findings, ...schedules, ...silent];
  return found.length > 0 ? found : [ok("queues", `${count(queues.length, "queue")}: nothing is stuck.`)];
}

/** Heartbeats come every 10 s or more often. */
const SILENT_MS = 20_000;
/** A task that waits for longer is probably not meant to. */
const OLD_MS = 3_600_000;

function checkQueue(stats: QueueStats): Finding[] {
  const { queue, depth } = stats;
  const stuck = depth.ready > 0 ? findStuck(stats) : [];
  const dead =
    depth.dead > 0
      ? [
          warning(
            "dead letters",
            `${queue} has ${count(depth.dead, "dead letter")}.`,
            `dibs dead patterns ${queue}`,
          ),
        ]
      : [];
  return [...stuck, ...dead];
}

/** Why ready tasks of a queue do not start: the first reason is enough. */
function findStuck({ queue, depth, paused, heldBack, workers, oldestAge, rates }: QueueStats): Finding[] {
  const waiting = `${queue} has ${count(depth.ready, "ready task")}`;
  if (paused) return [warning("queue", `${waiting} and is paused.`, `dibs queue resume ${queue}`)];
  if (heldBack?.by === "hold") {
    const until = heldBack.until ? ` until ${heldBack.until.toISOString()}` : "";
    return [warning("queue", `${waiting} and a worker asked to hold it${until}.`, `dibs unhold ${queue}`)];
  }
  if (workers === 0 && rates.donePerSecond === 0)
    return [
      warning("queue", `${waiting} and no worker serves it.`, `Start one: dibs work ${queue} -- COMMAND`),
    ];
  if (oldestAge !== null && oldestAge > OLD_MS)
    return [
      warning(
        "queue",
        `${waiting}; the oldest has waited for ${formatDuration(oldestAge)}.`,
        `dibs advise ${queue}`,
      ),
    ];
  return [];
}
