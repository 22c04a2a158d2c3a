import { describe, expect, test } from "vitest";
import type { Port } from "../../src/core/port.ts";
import { Access } from "../../src/server/access.ts";
import { admitterOf } from "../../src/server/admit-amqp.ts";
import { makeTokens } from "./guarded.ts";

const GUEST = { user: "guest", password: "guest" };

function admitter(tokens = makeTokens()) {
  const access = new Access(tokens, { letAnyoneIn: false });
  return admitterOf({ access, letAnyoneIn: false }, () => ({}) as Port);
}

describe("a login over AMQP", () => {
  test.each(["127.0.0.1", "::1", "::ffff:127.0.0.1"])("guest is admitted from %s", (address) => {
    expect(admitter()(GUEST, address)?.allows("admin", "any")).toBe(true);
  });

  test.each(["10.0.0.1", "::ffff:10.0.0.1", ""])("guest is refused from %j", (address) => {
    expect(admitter()(GUEST, address)).toBe(undefined);
  });

  test("another name or password is refused while there are no tokens", () => {
    expect(admitter()({ user: "guest", password: "other" }, "127.0.0.1")).toBe(undefined);
    expect(admitter()({ user: "root", password: "guest" }, "127.0.0.1")).toBe(undefined);
  });

  test("a token as password is admitted from anywhere with its scopes, and guest no longer", () => {
    const tokens = makeTokens();
    const { token } = tokens.add("shop", ["add:orders"]);
    const admit = admitter(tokens);
    const admitted = admit({ user: "any", password: token }, "10.0.0.1");
    expect(admitted?.allows("add", "orders")).toBe(true);
    expect(admitted?.allows("work", "orders")).toBe(false);
    expect(admit(GUEST, "127.0.0.1")).toBe(undefined);
  });
});
