import type { Port } from "../core/port.ts";
import type { AmqpOptions } from "../doors/amqp/door.ts";
import type { Access } from "./access.ts";
import { isLoopback } from "./callers.ts";
import type { Grant } from "./scopes.ts";

/**
 * Who may log in over AMQP. The password is a token, and the user's name is only a label. Without tokens, guest may do
 * everything from the same machine, and everyone may if the operator let anyone in.
 */
export function admitterOf(
  { access, letAnyoneIn }: { access: Access; letAnyoneIn: boolean },
  guard: (grant: Grant) => Port,
): AmqpOptions["admit"] {
  return ({ user, password }, address) => {
    const isGuest = user === "guest" && password === "guest" && isLoopback(address.replace(/^::ffff:/, ""));
    const entry = access.find(password) ?? (isGuest || letAnyoneIn ? access.anyone() : undefined);
    if (!entry) return undefined;
    const { owner, grant } = entry;
    return { port: guard(grant), owner, allows: (kind, queue) => grant.allows(kind, queue) };
  };
}
