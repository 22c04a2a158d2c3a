import { type Flow, noFlow } from "../core/queue/flow.ts";
import { type DepthByState, NO_DEPTH, type TaskState } from "../core/task/task.ts";

/** What a transaction has counted and not written yet. `transaction/counters.ts` of both SQL engines writes it. */
export class UncommittedCounts<Queue> {
  protected readonly depths = new Map<Queue, DepthByState>();
  protected readonly flows = new Map<Queue, Flow>();

  count(queue: Queue, state: TaskState, by: number): void {
    let depth = this.depths.get(queue);
    if (!depth) {
      depth = { ...NO_DEPTH };
      this.depths.set(queue, depth);
    }
    depth[state] += by;
  }

  flow(queue: Queue): Flow {
    let flow = this.flows.get(queue);
    if (!flow) {
      flow = noFlow();
      this.flows.set(queue, flow);
    }
    return flow;
  }

  /** The queue is dropped. */
  remove(queue: Queue): void {
    this.depths.delete(queue);
    this.flows.delete(queue);
  }

  forget(): void {
    this.depths.clear();
    this.flows.clear();
  }
}
