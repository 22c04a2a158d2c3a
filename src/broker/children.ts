import { checkChildren } from "../core/task/additions.ts";
import type { NewChild, SpawnedTask } from "../core/handler/children.ts";
import { LIMITS } from "../core/input/limits.ts";
import { checkBoolean, checkNames, checkNumber } from "../core/input/options.ts";
import type { ChildrenPage, ChildrenQuery } from "../core/port.ts";
import type { ClaimRef } from "../core/task/task.ts";
import { expectTasks } from "./add.ts";
import { checkClaim, checkTaskId } from "./check.ts";
import type { Context } from "./context.ts";

/** Adds children of the claim's task. */
export async function spawn(context: Context, claim: ClaimRef, children: NewChild[]): Promise<SpawnedTask[]> {
  const held = checkClaim(claim);
  checkChildren(children);
  const spawned = context.run({ verb: "spawn", ...held, children });
  expectTasks(
    context,
    children.map(({ task }) => task),
  );
  return spawned;
}

export async function children(
  context: Context,
  id: string,
  query: ChildrenQuery = {},
): Promise<ChildrenPage> {
  checkTaskId(id);
  checkNames(query, ["after", "limit", "ends"], "children");
  const { after, limit = LIMITS.page, ends = false } = query;
  return context.run({
    ...{ verb: "children", id, limit: checkNumber(limit, "limit", 1, LIMITS.page) },
    ...(after !== undefined && { after: checkNumber(after, "after", 0, LIMITS.children) }),
    ...(checkBoolean(ends, "ends") && { ends: true }),
  });
}
