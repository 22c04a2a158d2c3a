import {
  type DeclareOutcome,
  differs,
  isDeclared,
  mergePolicy,
  type NamedPolicy,
  withDeclared,
} from "./policy.ts";

/** What a queue stores of its declarations. */
interface Stored {
  named: NamedPolicy;
  declared: string | null;
}

export interface Decision extends Stored {
  outcome: DeclareOutcome;
  /** The two values above are to be stored. */
  applies: boolean;
  /** The resolved policy changes. */
  changes: boolean;
}

/** What a declaration does to a queue. All engines carry it out. `isNew`: the queue has just been created. */
export function decideDeclaration(
  { named, declared }: Stored,
  isNew: boolean,
  policy: NamedPolicy,
  { force = false, create = false }: { force?: boolean; create?: boolean },
): Decision {
  const stays = { named, declared, applies: false, changes: false };
  if (create && !isNew) return { ...stays, outcome: differs(named, policy) ? "refused" : "unchanged" };
  const applies = force || (Object.keys(policy).length > 0 && !isDeclared(declared, policy));
  if (!applies) return { ...stays, outcome: isNew ? "created" : "unchanged" };
  const changes = differs(named, policy);
  return {
    ...{ applies, changes, named: mergePolicy(named, policy) },
    declared: force ? declared : withDeclared(declared, policy),
    outcome: isNew ? "created" : changes ? "changed" : "unchanged",
  };
}
