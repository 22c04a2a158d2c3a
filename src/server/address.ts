import type { Server as HttpServer } from "node:http";
import { DibsError, invalid } from "../core/errors.ts";
import type { Access } from "./access.ts";
import { isLoopback } from "./callers.ts";

/** Where a server listens. */

interface Address {
  host: string;
  /** 0: any that is free. */
  port: number;
}

/** Refuses an address by which others get in while nobody needs a token, unless somebody said that this is meant. */
export function checkAddress({
  host,
  letAnyoneIn,
  access,
}: Address & { letAnyoneIn: boolean; access: Access }): void {
  if (isLoopback(host) || letAnyoneIn || access.asksForTokens) return;
  throw invalid(
    `--host ${host} lets others than this machine in, and there are no tokens yet: anybody could read and change ` +
      `everything. Make one with \`dibs tokens add NAME --scope admin:*\`, or say --let-anyone-in if that is what you want.`,
  );
}

/** Resolves when it listens. `onFailure` is told of what goes wrong with the socket later. */
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

function cannotListen(host: string, port: number, error: NodeJS.ErrnoException): DibsError {
  const advice =
    error.code === "EADDRINUSE"
      ? "Something listens there already; take another --port, or stop it."
      : "Check --host and --port.";
  return new DibsError("INVALID", `dibs cannot listen on ${host} port ${port}: ${error.message}. ${advice}`);
}
