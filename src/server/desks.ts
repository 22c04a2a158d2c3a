import { Desk } from "../dashboard/desk.ts";
import type { Dashboard } from "../dashboard/dashboard.ts";
import type { Me } from "../dashboard/contract.ts";
import type { Port } from "../core/port.ts";
import { type AdminAction, guardPort } from "./guard.ts";
import type { Grant } from "./scopes.ts";

export interface DeskCaller {
  /** Already restricted to the grant. */
  port: Port;
  grant: Grant;
  token: string | undefined;
  isWelcome: () => boolean;
}

/** The dashboard for callers with a grant: of the server, and of the handler that users mount. */
export function deskFor(
  dashboard: Dashboard,
  store: Port,
  audit: (action: AdminAction) => void,
  { port, grant, token, isWelcome }: DeskCaller,
): Desk {
  const { name, scopes } = grant;
  return new Desk(dashboard, {
    ...{ port, token, name: grant.isToken ? name : null },
    quietPort: guardPort(store, grant, () => {}),
    scopes: scopes.split(" "),
    isAdmin: grant.allowsAll("admin"),
    needAdmin: (queue) => grant.need(["admin"], [queue]),
    audit: (entry) => audit({ by: name, ...entry }),
    viewer: {
      ...{ name, scopes, isWelcome, readsAll: grant.allowsAll("read") },
      reads: grant.allowsAll("read") ? () => true : (queue) => grant.allows("read", queue),
      administers: (queue) => grant.allows("admin", queue),
    },
  });
}

/** What a caller without a token learns where one is needed: only that. */
export function strangerDesk({ facts }: Dashboard, now: number): Pick<Desk, "me"> {
  const { version, startedAt } = facts;
  const me: Me = {
    ...{ signIn: true, name: null, scopes: [], version, store: null, engine: null, startedAt, now },
    demo: false,
  };
  return { me: () => me };
}
