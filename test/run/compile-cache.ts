import { fileURLToPath } from "node:url";

/**
 * Before all tests: lets the processes and threads that tests start keep what Node compiled. A program that opens a store
 * strips the types of about 300 files: 0.5 s of CPU without the cache, 0.2 s with it. Node compares each file with
 * what it kept, so the cache is never stale.
 */
export default function setUp(): void {
  process.env["NODE_COMPILE_CACHE"] = fileURLToPath(
    new URL("../../node_modules/.cache/compiled", import.meta.url),
  );
}

/** The environment of a program that must not see any other variable of the machine. */
export function bareEnvironment(): NodeJS.ProcessEnv {
  return { PATH: process.env["PATH"], NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] };
}
