import { IS_ALIVE } from "./life.ts";
import { IS_KNOWN } from "./migrations.ts";

/** What the header would tell, of most transactions: for a statement that is sent without one (at-once.ts). */
export const IS_USUAL = `NOT EXISTS (SELECT 1 FROM dibs.listener) AND ${IS_KNOWN} AND ${IS_ALIVE}`;
