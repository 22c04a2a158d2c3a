#!/usr/bin/env node
import { EXIT } from "./exit.ts";

/**
 * The `dibs` command. It loads the rest with import(), after the check of Node's version: a failing static import would
 * end the process with a stack trace.
 */
try {
  await import("../core/process/supported-node.ts");
} catch (error) {
  process.stderr.write(`dibs: ${(error as Error).message}\n`);
  process.exit(EXIT.failed);
}
const { main } = await import("./program.ts");
await main();
