import type { Model } from "./model.ts";

export function put(
  model: Model,
  kind: string,
  name: string,
  value: string | null,
): { before: string | null } {
  const ofKind = model.documents.get(kind) ?? new Map<string, string>();
  const before = ofKind.get(name) ?? null;
  if (value === null) ofKind.delete(name);
  else ofKind.set(name, value);
  model.documents.set(kind, ofKind);
  return { before };
}

export function documents(
  model: Model,
  kind: string,
  only: string | undefined,
): { name: string; value: string }[] {
  return [...(model.documents.get(kind) ?? [])]
    .map(([name, value]) => ({ name, value }))
    .filter(({ name }) => only === undefined || name === only)
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}
