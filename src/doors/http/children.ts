import { z } from "@hono/zod-openapi";
import type { ChildEnd, ChildRecord, NewChild } from "../../core/handler/children.ts";
import { fromResult, toBody } from "./bodies.ts";
import { type App, define } from "./define.ts";
import { refOf } from "./held-claim.ts";
import { addedTask, childPage, newTask, ofClaim, ofTask, wholeNumber } from "./schemas.ts";
import { LIMITS } from "../../core/input/limits.ts";

/** Children: tasks that the holder of a claim spawns, and waits for by parking. */

const newChild = newTask
  .omit({ unique: true })
  .extend({
    name: z
      .string()
      .openapi({ description: "tells the children of the task apart: the same name is the same child" }),
    queue: z.string(),
  })
  .openapi("NewChild");

const spawned = addedTask
  .extend({ n: z.number().openapi({ description: "counts the children of the task" }) })
  .openapi("SpawnedTask");

export function children(app: App): void {
  define(
    app,
    {
      ...{
        method: "post",
        path: "/v1/claims/{id}/{fence}/children",
        summary: "Spawn children of the task, all or none; a name that was spawned before returns its child",
      },
      ...{ params: ofClaim, status: 201 },
      body: z.strictObject({ children: z.array(newChild).min(1).max(LIMITS.children) }),
      answer: z.object({ children: z.array(spawned) }),
    },
    async ({ port, params, body }) => {
      const given = (body as { children: (NewChild["task"] & { name: string; data: unknown })[] }).children;
      const named = given.map(({ name, data, ...task }) => ({ name, task: { ...task, data: toBody(data) } }));
      return { children: await port.spawn(refOf(params), named) };
    },
  );
  define(
    app,
    {
      ...{
        method: "get",
        answers: "page",
        path: "/v1/tasks/{id}/children",
        summary: "The tasks that it has spawned, page by page",
      },
      ...{ params: ofTask, answer: childPage },
      query: z.object({
        after: wholeNumber(0, LIMITS.children)
          .optional()
          .openapi({ description: "the `next` of the previous page" }),
        limit: wholeNumber(1, LIMITS.page).default(100),
        ends: z
          .enum(["true", "false"])
          .default("false")
          .transform((value) => value === "true")
          .openapi({ description: "with their results and errors" }),
      }),
    },
    async ({ port, params, query }) => {
      const page = await port.children(params["id"]!, query);
      return { ...page, children: page.children.map(shown) };
    },
  );
}

function shown(child: ChildRecord | ChildEnd): object {
  return "result" in child ? { ...child, result: fromResult(child.result) } : child;
}
