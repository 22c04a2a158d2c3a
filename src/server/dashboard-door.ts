import { DibsError } from "../core/errors/errors.ts";
import type { Port } from "../core/port.ts";
import type { Dashboard } from "../dashboard/dashboard.ts";
import type { Desk } from "../dashboard/desk.ts";
import { respondProblem } from "../doors/http/door.ts";
import { NotFound, problemOf } from "../doors/http/problem.ts";
import type { Access } from "./access.ts";
import { deskFor, strangerDesk } from "./desks.ts";
import type { AdminAction } from "./guard.ts";
import type { Grant } from "./scopes.ts";
import type { WebFiles } from "./web-files.ts";

/** The part of the server that answers the dashboard's page: its files, and what it reads. */
export class DashboardDoor {
  readonly #options: DashboardDoorOptions;

  constructor(options: DashboardDoorOptions) {
    this.#options = options;
  }

  /** The page asks who it is before anybody has signed in. */
  isOpen(path: string, token: string | undefined): boolean {
    const { dashboard, access } = this.#options;
    return path === "/v1/me" && token === undefined && dashboard !== undefined && access.asksForTokens;
  }

  strangerDesk(): Pick<Desk, keyof Desk> {
    const { dashboard, store } = this.#options;
    // Only `me` can be reached without a token.
    return strangerDesk(dashboard!, Math.floor(store.clock.read().wall)) as Desk;
  }

  deskFor({
    port,
    grant,
    token,
    owner,
  }: {
    port: Port;
    grant: Grant;
    token: string | undefined;
    owner: string;
  }) {
    const { dashboard, access, store, audit } = this.#options;
    if (!dashboard) throw new DibsError("UNSUPPORTED", "This server was started without the dashboard.");
    const isWelcome = (): boolean => {
      try {
        return access.isWelcome(owner);
      } catch {
        // The tokens cannot be read now: the server refuses new callers, and ends nothing.
        return true;
      }
    };
    return deskFor(dashboard, store, audit, { port, grant, token, isWelcome });
  }

  /** Everything but the interface: the page has its own paths, which a reload asks the server for. */
  hasPage(method: string, path: string): boolean {
    const isLooking = method === "GET" || method === "HEAD";
    return this.#options.web !== undefined && isLooking && !path.startsWith("/v1/");
  }

  async page(request: Request, path: string): Promise<Response> {
    const files = await this.#options.web!();
    return (
      files?.respond(request, path.slice(1), "/") ??
      respondProblem(problemOf(new NotFound(request.method, path)))
    );
  }
}

export interface DashboardDoorOptions {
  dashboard?: Dashboard | undefined;
  access: Access;
  store: Port;
  audit: (action: AdminAction) => void;
  web?: (() => Promise<WebFiles | undefined>) | undefined;
}
