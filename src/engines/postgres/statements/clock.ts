/**
 * The time of a store is its server's. Each transaction has one time, which its header reads (tx.ts); statements that are sent along
 * with the header read the clock themselves. A server does not sleep: leases and due times go by the same clock.
 */
const MILLISECONDS_OF = (instant: string): string => `floor(extract(epoch FROM ${instant}) * 1000)::int8`;

/**
 * This very moment. When a claim starts, and when it ends: the transaction's own time may be older than the end of the attempt
 * before, which another transaction committed meanwhile.
 */
export const THIS_MOMENT = MILLISECONDS_OF("clock_timestamp()");

/**
 * When the statement began: one value all through it, by which an index can be searched, and which need not be kept in a table of
 * its own while it runs. The statement may see what was committed a moment later. Where many rows need it, it is written as a
 * question of its own, `(SELECT …)`, which is answered once: to compute it takes as long as to write a short row.
 */
export const STATEMENT_BEGAN = MILLISECONDS_OF("statement_timestamp()");
