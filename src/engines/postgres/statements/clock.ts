/**
 * The time of a store is its server's clock. Each transaction has one time, which its header reads (tx.ts). Statements that
 * are sent ahead read the clock themselves. A server does not sleep, so leases and due times use the same clock.
 */
const MILLISECONDS_OF = (instant: string): string => `floor(extract(epoch FROM ${instant}) * 1000)::int8`;

/**
 * The current time, for the start and the end of a claim: the transaction's time may be older than the end of the previous
 * attempt, which another transaction committed meanwhile.
 */
export const THIS_MOMENT = MILLISECONDS_OF("clock_timestamp()");

/**
 * The start of the statement. It is constant, so that an index can be searched by it without a CTE. The statement may see
 * rows that were committed a moment later. For many rows write it as `(SELECT …)`, which is computed once: to compute it
 * takes as long as to write a short row.
 */
export const STATEMENT_BEGAN = MILLISECONDS_OF("statement_timestamp()");
