import { z } from "@hono/zod-openapi";
import type { SupervisedKind, SupervisedRecord } from "../../core/supervision.ts";
import { type App, define } from "./define.ts";
import { json, next, pageQuery, wholeNumber } from "./schemas.ts";

const holder = z
  .object({
    ...{ name: z.string(), host: z.string(), pid: z.number(), queues: z.array(z.string()) },
    heldUntil: z
      .number()
      .nullable()
      .openapi({ description: "milliseconds since 1970; past or null: no process looks after it now" }),
    report: json,
  })
  .openapi("Supervised");

const decision = z
  .object({
    ...{ at: z.number(), type: z.string(), queue: z.string(), reasons: z.array(z.string()) },
    ...{ from: z.number().optional(), to: z.number().optional() },
  })
  .openapi("Decision");

const named = z.object({ name: z.string().openapi({ example: "mailers" }) });

/** Pools and alerts: which process looks after them, and what it has decided. */
export function pools(app: App): void {
  const kinds: [SupervisedKind, string][] = [
    ["pool", "/v1/pools"],
    ["alerts", "/v1/alerts"],
  ];
  for (const [kind, path] of kinds) {
    const what = kind === "pool" ? "pools" : "alerts";
    define(
      app,
      {
        ...{
          method: "get",
          answers: "page",
          path,
          summary: `The ${what} with the process that runs them, page by page`,
        },
        query: pageQuery,
        answer: z.object({ [what]: z.array(holder), next }),
      },
      async ({ port, query }) => {
        const page = await port.supervised(kind, query);
        return { [what]: page.items.map(shown), next: page.next };
      },
    );
    define(
      app,
      {
        ...{ method: "get", answers: "page", path: `${path}/{name}/decisions` },
        summary: `The last decisions, with their reasons, the newest first`,
        params: named,
        query: z.object({ limit: wholeNumber(1, 1_000).optional() }),
        answer: z.object({ decisions: z.array(decision) }),
      },
      async ({ port, params, query }) => ({
        decisions: await port.decisions(kind, params["name"]!, (query["limit"] as number | undefined) ?? 50),
      }),
    );
  }
}

function shown({ name, host, pid, queues, heldUntil, report }: SupervisedRecord): object {
  return { name, host, pid, queues, heldUntil, report: JSON.parse(report) as unknown };
}
