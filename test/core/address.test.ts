import { describe, expect, test } from "vitest";
import { kindOf, hostAndDatabaseOf, showAddress, withoutSecrets } from "../../src/core/process/address.ts";
import { addressesWith, CANARY } from "./secret-addresses.ts";

describe("the kind of an address", () => {
  test.each([
    [":memory:", "memory"],
    ["work.db", "file"],
    ["data/work:1.db", "file"],
    ["/data/a@b:1/work.db", "file"],
    ["./127.0.0.1:7411", "file"],
    ["../localhost:7411", "file"],
    ["C:\\data\\work.db", "file"],
    ["file:///data/work.db", "file"],
    ["POSTGRES://db/dibs", "postgres"],
    ["postgresql://db", "postgres"],
    ["http://db:7411", "server"],
    ["WSS://db", "server"],
  ])("%s is %s", (address, kind) => expect(kindOf(address)).toBe(kind));

  test.each(["127.0.0.1:7411", "localhost:7411", "[::1]:7411", "example.com:5432"])(
    "the address %s is refused, and the error gives the address of a server",
    (address) => {
      const said = { code: "INVALID", message: expect.stringContaining(`http://${address} `) };
      expect(() => kindOf(address)).toThrow(expect.objectContaining(said));
    },
  );

  test.each([
    ...["", " work.db", "work.db\n", "a\0b", "::1", "localhost:7411/x", "localhost:", "work:1.db"],
    ...[
      "http:/db:7411",
      "http:db",
      "postgres:/db",
      "jdbc:postgresql://db/dibs",
      "file:work.db",
      "mailto:a@b",
    ],
    ...["host=db user=ada", "Server=db;Database=dibs", "//ada@db/dibs", "postgres%3A%2F%2Fdb"],
    ...["postgres//ada:pw@db/dibs", "http//ada%3Apw%40db", "x/postgres//ada:p/w@db"],
  ])("the address %j is refused", (address) =>
    expect(() => kindOf(address)).toThrow(expect.objectContaining({ code: "INVALID" })),
  );

  test("an address with an unknown scheme is UNSUPPORTED", () => {
    expect(() => kindOf("redis://db")).toThrow(expect.objectContaining({ code: "UNSUPPORTED" }));
  });
});

describe("showing an address", () => {
  test.each([
    ["work.db", "work.db"],
    ["/data/a@b.db", "/data/a@b.db"],
    ["file:///data/a@b.db", "file:///data/a@b.db"],
    ["postgres://ada:pw@db:5432/dibs", "postgres://***@db:5432/dibs"],
    [
      "postgres:///dibs?host=/run/pg&password=pw&sslmode=require",
      "postgres:///dibs?host=/run/pg&***&sslmode=require",
    ],
    ["postgres://a:pw@one:1,[::1]:2/dibs", "postgres://***@one:1,[::1]:2/dibs"],
    ["http://pw@db:7411/base", "http://***@db:7411/base"],
    ["127.0.0.1:7411", "127.0.0.1:7411"],
    [":memory:", ":memory:"],
  ])("%s as %s", (address, shown) => expect(withoutSecrets(address)).toBe(shown));

  test.each(addressesWith(CANARY))("the shown address does not contain the password of %j", (address) => {
    expect(withoutSecrets(address)).not.toContain(CANARY);
    expect(showAddress(address)).not.toContain(CANARY);
    expect(hostAndDatabaseOf(address)).not.toContain(CANARY);
  });

  test("showing a long address takes linear time", () => {
    const long = `postgres://${"a,".repeat(200_000)}\0`;
    expect(withoutSecrets(long)).toBe("postgres://…");
  });
});
