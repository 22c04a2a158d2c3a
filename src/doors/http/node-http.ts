/**
 * Node's `http`. An import of it reads each of its exports, and the one named `WebSocket` then loads undici, which takes
 * 13 MB.
 */
export const { createServer, STATUS_CODES } = process.getBuiltinModule("node:http");
