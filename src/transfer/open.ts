import { kindOf, showAddress } from "../core/process/address.ts";
import { DibsError, invalid } from "../core/errors/errors.ts";
import { filePathOf } from "../engine/real-file.ts";
import type { TransferStore } from "../engine/transfer.ts";

export interface OpenOptions {
  /** PostgreSQL: the schema that holds the tables, "dibs" unless set. */
  schema?: string;
  /** Create the store if it does not exist. */
  create?: boolean;
}

/**
 * Opens a store for export, import or move: without its engine, and also if the store is closed to all other processes.
 */
export async function openTransfer(address: string, options: OpenOptions = {}): Promise<TransferStore> {
  const { schema, create = false } = options;
  const kind = kindOf(address);
  if (kind === "postgres") {
    const { openPostgresTransfer } = await import("../engines/postgres/transfer/transfer.ts");
    return openPostgresTransfer({ url: address, create, ...(schema !== undefined && { schema }) });
  }
  if (schema !== undefined)
    throw invalid(`A schema is for PostgreSQL; ${showAddress(address)} is another kind of store.`);
  if (kind === "server")
    throw new DibsError(
      "UNSUPPORTED",
      `The server ${showAddress(address)} cannot be exported, imported or moved. Name the store itself: a file, such as ./work.db, or a ` +
        `postgres:// address. It is the one that dibs serve was given.`,
    );
  if (kind === "memory")
    throw invalid(
      `":memory:" is not a durable store. Name a file, such as ./work.db, or a postgres:// address.`,
    );
  const { SqliteTransfer } = await import("../engines/sqlite/transfer/transfer.ts");
  return new SqliteTransfer({ path: filePathOf(address), create });
}
