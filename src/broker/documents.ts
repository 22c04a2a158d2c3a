import { invalid } from "../core/errors/errors.ts";
import { checkText } from "../core/input/options.ts";
import type { Documents, DoorKind } from "../core/port.ts";
import type { Paged } from "../core/answer/page.ts";
import { show } from "../core/errors/show.ts";
import type { PageRequest } from "../engine/engine.ts";
import type { StoredDocument } from "../engine/documents.ts";
import { checkPage } from "./check.ts";
import type { Context } from "./context.ts";

/** Reads and writes documents: schedules and pipelines for schedules.ts and runs.ts, and the documents of doors. */

const LONGEST_NAME = 1_024;

/** A door may not write other kinds: the checks of schedules, pipelines and pools would not see its values. */
function checkKind(kind: DoorKind): DoorKind {
  if (typeof kind === "string" && /^amqp-[a-z]+$/.test(kind)) return kind;
  throw invalid(`A door's documents are of a kind such as "amqp-exchange"; got ${show(kind)}.`);
}

export function doorDocuments(context: Context): Documents {
  return {
    list: async (kind, query = {}) => {
      const page = checkPage(query, "documents", "name");
      const { name } = query;
      return context.run({
        ...{ verb: "documents", kind: checkKind(kind), ...page },
        ...(name !== undefined && { name: checkText(name, "name", LONGEST_NAME) }),
      });
    },
    put: async (kind, name, value, expect) => {
      checkText(name, "A document's name", LONGEST_NAME);
      const change = { kind: checkKind(kind), name, value, ...(expect !== undefined && { expect }) };
      return (await context.run({ verb: "put", ...change })).before;
    },
  };
}

export async function findDocument(
  context: Context,
  kind: string,
  name: string,
): Promise<StoredDocument | undefined> {
  return (await context.run({ verb: "documents", kind, name, limit: 1 })).items[0];
}

export async function listDocuments<Item>(
  context: Context,
  kind: string,
  page: PageRequest & { name?: string },
  parse: (document: StoredDocument) => Item,
): Promise<Paged<Item>> {
  const { items, next } = await context.run({ verb: "documents", kind, ...page });
  return { items: items.map(parse), next };
}
