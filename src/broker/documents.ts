import type { Paged } from "../core/port.ts";
import type { PageRequest, StoredDocument } from "../engine/engine.ts";
import type { Context } from "./context.ts";

/** Reads the documents that schedules and pipelines are stored as, for schedules.ts and runs.ts. */

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
