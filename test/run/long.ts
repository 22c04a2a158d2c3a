/** Whether this is `npm run test:long` (vitest.config.ts), which repeats more often and adds cases that take minutes. */
export const isLong = process.env["DIBS_LONG"] === "1";
