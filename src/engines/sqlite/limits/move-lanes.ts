import { governsGroups } from "../../../core/queue/policy.ts";
import { spend } from "../../../core/queue/rate.ts";
import { isFull, type Lane, LaneChanges, type LaneName } from "./lanes.ts";
import type { TransitionTask } from "../line/line.ts";
import { COUNTED, type Lanes, type Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** What happens to lanes in queues whose groups have limits. */

/**
 * See `enter` in line.ts. If groups have limits, a head joins again like any other task, because each start counts. So
 * does one of several heads.
 */
export function enterLane(tx: Tx, task: TransitionTask): "ready" | "waiting" {
  const { queue, groupKey, blocksGroup, seq, rank, pos, failures } = task;
  const book = new LaneChanges(tx);
  const lane = book.lane(queue, groupKey!);
  if (blocksGroup && lane.holders === 1 && !governsGroups(queue.policy)) {
    if (queue.lanes === COUNTED) lane.line.push(seq);
    book.enterLine({ queue, rank, pos, task: seq, failures, session: null });
  } else {
    if (blocksGroup) lane.holders--;
    task.blocksGroup = book.fill(lane, task);
  }
  book.save();
  return task.blocksGroup ? "ready" : "waiting";
}

/** It left the line, and may still be a head of its group. */
export function leaveLine(tx: Tx, queue: Queue, key: string, seq: number): void {
  changeLane(tx, queue, key, (lane) => (lane.line = lane.line.filter((other) => other !== seq)));
}

/** Promotes no waiting task. */
export function changeLane<T>(tx: Tx, queue: Queue, key: string, change: (lane: Lane) => T): T {
  const book = new LaneChanges(tx);
  const answer = change(book.lane(queue, key));
  book.save();
  return answer;
}

export function fillLane(tx: Tx, queue: Queue, key: string): void {
  const book = new LaneChanges(tx);
  book.fill(book.lane(queue, key));
  book.save();
}

/** Heads of these groups are gone, one after the other. */
export function freeLanes(tx: Tx, names: readonly LaneName[]): void {
  const book = new LaneChanges(tx);
  if (names.length > 1) {
    book.open(names);
    const freed = Map.groupBy(names, ({ queue, key }) => book.lane(queue, key));
    book.lookAhead(
      [...freed]
        .filter(([lane, ends]) => !isFull({ ...lane, holders: lane.holders - ends.length }))
        .map(([lane]) => lane),
    );
  }
  for (const { queue, key } of names) {
    const lane = book.lane(queue, key);
    lane.holders--;
    book.fill(lane);
  }
  book.save();
}

export interface Started {
  seq: number;
  key: string;
  cost: number;
}

/** Tasks were claimed. Each start counts for its group, and promotes the next task. */
export function promoteNext(tx: Tx, queue: Queue, session: number | null, started: readonly Started[]): void {
  const { rateLimit, sticky } = queue.policy.groups;
  const governs = governsGroups(queue.policy);
  const book = new LaneChanges(tx);
  book.open(started.map(({ key }) => ({ queue, key })));
  const lanes = new Set<Lane>();
  for (const { seq, key, cost } of started) {
    const lane = book.lane(queue, key);
    lanes.add(lane);
    lane.line = lane.line.filter((other) => other !== seq);
    if (!governs) continue;
    lane.meter = spend(rateLimit, lane.meter, cost, tx.now);
    lane.session = sticky ? session : null;
  }
  if (governs) {
    book.lookAhead([...lanes].filter((lane) => !isFull(lane)));
    for (const lane of lanes) book.fill(lane);
  }
  book.save();
}

const inLine = (table: "ready" | "ready_elsewhere"): string => `
  UPDATE lane SET state = json_set(coalesce(state, '{"holders":1}'), '$.line', json_array(head.task))
  FROM (
    SELECT task.seq AS task, task.group_key FROM ${table} CROSS JOIN task ON task.seq = ${table}.task
    WHERE ${table}.queue = :queue AND task.group_key IS NOT NULL
  ) AS head
  WHERE lane.queue = :queue AND lane.group_key = head.group_key`;
const COUNT_LINES = [inLine("ready"), inLine("ready_elsewhere")];

/** From now on the lanes of a queue store this much. Once for a queue, because all its lanes are read. */
export function raiseLanes(tx: Tx, queue: Queue, lanes: Lanes): void {
  if (queue.lanes >= lanes) return;
  if (lanes === COUNTED) for (const sql of COUNT_LINES) tx.runMany(sql, [], { queue: queue.id });
  queue.lanes = lanes;
  tx.queues.store(queue);
}
