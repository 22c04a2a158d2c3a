import type { TaskEntry } from "../../../core/record/record.ts";
import { rankOf } from "../../../core/task/task.ts";
import { enterLineAsImported } from "../line/enter-line.ts";
import { changeLane } from "../limits/move-lanes.ts";
import { SPECIAL } from "../statements/special.ts";
import { COUNTED, HEAD_ONLY, type Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** What an import writes of a task besides its own rows: the line, its lane and counters. import.ts calls it. */

const SET_SPECIAL = `
  UPDATE verifying SET special = (SELECT ${SPECIAL} FROM task WHERE seq = verifying.task) WHERE task = ?`;
const COUNT_DEAD = `UPDATE run SET dead = dead + 1 WHERE id = (SELECT run FROM run_part WHERE task = ?)`;

/** After the runs and their parts: a task that is a part is special. */
export function importTask(tx: Tx, record: TaskEntry): void {
  const { seq } = tx.place(record.id)!;
  const queue = tx.queues.getOrMake(record.queue);
  const { state, groupKey, failures = 0, pos = seq, linePos = pos, elsewhere = null } = record;
  const isInLine = state === "ready";
  if (isInLine) {
    const place = { queue, rank: rankOf(record), pos: linePos, task: seq, failures };
    enterLineAsImported(tx, place, elsewhere);
  }
  if (groupKey !== undefined && (isInLine || record.blocksGroup))
    holdLane(tx, queue, groupKey, isInLine ? seq : null);
  if (state === "verifying") tx.run(SET_SPECIAL, seq);
  if (state === "dead") tx.run(COUNT_DEAD, seq);
  tx.counters.count(queue, state, 1);
}

const TAKE_LANE = `INSERT INTO lane (queue, group_key) VALUES (?, ?) ON CONFLICT DO NOTHING`;

/** A task blocks its group. `inLine`: the task, if it is in the line. */
function holdLane(tx: Tx, queue: Queue, key: string, inLine: number | null): void {
  if (queue.lanes === HEAD_ONLY) {
    tx.run(TAKE_LANE, queue.id, key);
    return;
  }
  changeLane(tx, queue, key, (lane) => {
    lane.holders++;
    if (inLine !== null && queue.lanes === COUNTED) lane.line.push(inLine);
  });
}
