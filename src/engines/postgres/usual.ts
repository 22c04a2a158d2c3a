import { IS_ALIVE } from "./life.ts";
import { MIGRATIONS } from "./migrations.ts";
import { HAS_NOTES } from "./notes.ts";

/** The store is as a connection knows it, and nothing of others' is to be taken up first: for what is sent ahead (foresee.ts). */
export const asKnown = (revision: string, epoch: string, also = ""): string =>
  `EXISTS (SELECT 1 FROM dibs.store WHERE one = 1 AND revision = ${revision} AND epoch = ${epoch} ${also} AND NOT ${HAS_NOTES})`;

/**
 * The same with all else that the header would tell, of most transactions: for a statement that is sent without one (at-once.ts).
 * `salt`: the store's, which is another one's where the schema was dropped and made anew.
 */
export const asUsual = (revision: string, epoch: string, salt: string): string => `
  ${asKnown(revision, epoch, `AND needs <= ${MIGRATIONS.length} AND salt = ${salt}`)}
  AND NOT EXISTS (SELECT 1 FROM dibs.listener) AND ${IS_ALIVE}`;
