import { call } from "../../api/call.ts";
import type { FoundTask } from "../../api/contract.ts";
import { useResource } from "../../store/resource.ts";
import { TaskLink } from "../../ui/task-link.tsx";

const WORDS: Partial<Record<FoundTask["state"], [tone: string, text: string]>> = {
  done: ["green", "has passed. The rest may follow."],
  dead: ["red", "failed again. The cause is still there."],
  claimed: ["quiet", "is running…"],
  scheduled: ["amber", "failed once more, and waits for its next attempt…"],
};

/** Follows the one task that was redriven, to see whether it passes now. */
export function Trial({ id }: { id: string }) {
  const { value } = useResource((signal) => call<FoundTask>(`v1/tasks/${id}`, { signal }), [id], 500);
  const [tone, text] = (value && WORDS[value.state]) ?? ["quiet", "is in the line…"];
  return (
    <p class="trial" role="status">
      The redriven task <TaskLink id={id} /> <b class={tone}>{text}</b>
    </p>
  );
}
