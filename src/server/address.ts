import type { Server as HttpServer } from "node:http";
import { DibsError, invalid } from "../core/errors/errors.ts";
import type { Access } from "./access.ts";
import { isLoopback } from "./callers.ts";

/** Where a server listens. */

interface Address {
  host: string;
  /** 0: any free port. */
  port: number;
}

/**
 * Refuses an address that other machines can reach while no token is needed, unless --let-anyone-in says that this is
 * intended.
 */
export function checkAddress({
  host,
  letAnyoneIn,
  access,
}: Address & { letAnyoneIn: boolean; access: Access }): void {
  if (isLoopback(host) || letAnyoneIn || access.asksForTokens) return;
  throw invalid(
    `--host ${host} can be reached from other machines, and there are no tokens yet: anyone could read and change ` +
      `everything. Create one with \`dibs tokens add NAME --scope admin:*\`, or pass --let-anyone-in if that is what you want.`,
  );
}

/** Resolves when the server listens. `onFailure` gets later errors of the socket. */
export async function listenAt(
  http: HttpServer,
  { host, port }: Address,
  onFailure: (error: Error) => void,
): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException): void => reject(cannotListen(host, port, error));
    http.once("error", fail);
    http.listen(port, host, () => {
      http.off("error", fail);
      http.on("error", onFailure);
      resolve();
    });
  });
}

export function cannotListen(
  host: string,
  port: number,
  error: NodeJS.ErrnoException,
  flag = "--port",
): DibsError {
  const advice =
    error.code === "EADDRINUSE"
      ? `Something listens there already; take another ${flag}, or stop it.`
      : `Check --host and ${flag}.`;
  return new DibsError("INVALID", `dibs cannot listen on ${host} port ${port}: ${error.message}. ${advice}`);
}
