// A Prisma client, as `prisma generate` writes it for a schema without models. The command itself is not used, because
// it downloads a binary on first use, and tests run without the internet. The client needs none.

import { createRequire } from "node:module";
import { PrismaPg } from "@prisma/adapter-pg";
import { getPrismaClient, type GetPrismaClientConfig } from "@prisma/client/runtime/client";

export interface PrismaTransaction {
  $queryRawUnsafe(sql: string, ...params: unknown[]): Promise<object[]>;
}

export interface Prisma {
  $transaction(work: (tx: PrismaTransaction) => Promise<void>, options?: { timeout: number }): Promise<void>;
  $disconnect(): Promise<void>;
}

const require = createRequire(import.meta.url);
const { version } = require("@prisma/client/package.json") as { version: string };
const COMPILER = "@prisma/client/runtime/query_compiler_fast_bg.postgresql";
// Provided by Node; its types have no name for it.
const { Module } = (globalThis as unknown as { WebAssembly: { Module: new (code: Uint8Array) => never } })
  .WebAssembly;

const config: GetPrismaClientConfig = {
  previewFeatures: [],
  clientVersion: version,
  engineVersion: "none",
  activeProvider: "postgresql",
  inlineSchema: `datasource db {\n  provider = "postgresql"\n}\n`,
  runtimeDataModel: { models: {}, enums: {}, types: {} },
  parameterizationSchema: { strings: [], graph: "AAAA" },
  compilerWasm: {
    getRuntime: async () => require(`${COMPILER}.js`) as never,
    getQueryCompilerWasmModule: async () => {
      const { wasm } = require(`${COMPILER}.wasm-base64.js`) as { wasm: string };
      return new Module(Buffer.from(wasm, "base64"));
    },
    importName: "./query_compiler_fast_bg.js",
  },
};

export function openPrisma(url: string): Prisma {
  const PrismaClient = getPrismaClient(config);
  return new PrismaClient({ adapter: new PrismaPg({ connectionString: url }) });
}
