import { IS_ALIVE } from "./life.ts";
import { MIGRATIONS } from "./migrations.ts";

/**
 * What the header would tell, of most transactions: for a statement that is sent without one (at-once.ts). `salt`: the store's,
 * which is another one's where the schema was dropped and made anew.
 */
export const isUsual = (salt: string): string => `
  NOT EXISTS (SELECT 1 FROM dibs.listener) AND ${IS_ALIVE}
  AND EXISTS (SELECT 1 FROM dibs.store WHERE one = 1 AND needs <= ${MIGRATIONS.length} AND salt = ${salt})`;
