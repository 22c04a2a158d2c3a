import { describe, expect, test } from "vitest";
import { refused, type Start } from "./kit.ts";

const KIND = "amqp-exchange";

/** The documents of doors. A client of a server has none: its server's doors have them. */
export function doorDocuments(start: Start): void {
  describe("documents of doors", () => {
    const open = async () => {
      const { port } = await start();
      return port.documents;
    };

    test("a document is stored by kind and name, and null removes it", async () => {
      const documents = await open();
      expect(await documents.put(KIND, "a", "1")).toBe(null);
      expect(await documents.put("amqp-queue", "a", "other")).toBe(null);
      expect(await documents.put(KIND, "a", "2")).toBe("1");
      expect(await documents.list(KIND)).toEqual({ items: [{ name: "a", value: "2" }], next: null });
      expect(await documents.list(KIND, { name: "b" })).toEqual({ items: [], next: null });
      expect(await documents.put(KIND, "a", null)).toBe("2");
      expect((await documents.list(KIND)).items).toEqual([]);
    });

    test("of two changes that expect the same value, one happens", async () => {
      const documents = await open();
      await documents.put(KIND, "a", "1");
      await Promise.allSettled([documents.put(KIND, "a", "2", "1"), documents.put(KIND, "a", "3", "1")]);
      expect((await documents.list(KIND, { name: "a" })).items).toEqual([{ name: "a", value: "2" }]);
      await documents.put(KIND, "b", "new", null);
      await documents.put(KIND, "b", "newer", null);
      expect((await documents.list(KIND, { name: "b" })).items).toEqual([{ name: "b", value: "new" }]);
    });

    test("documents are listed in pages, by name", async () => {
      const documents = await open();
      for (const name of ["c", "a", "b"]) await documents.put(KIND, name, name);
      const first = await documents.list(KIND, { limit: 2 });
      expect(first.items.map(({ name }) => name)).toEqual(["a", "b"]);
      const rest = await documents.list(KIND, { limit: 2, after: first.next! });
      expect(rest).toEqual({ items: [{ name: "c", value: "c" }], next: null });
    });

    test("a kind of another owner is refused", async () => {
      const documents = await open();
      await refused(() => documents.list("schedule" as never), "INVALID", "amqp-exchange", "schedule");
      await refused(() => documents.put("schedule" as never, "a", "1"), "INVALID");
    });
  });
}

/** For a client of a server. */
export function noDoorDocuments(start: Start): void {
  test("a client of a server cannot reach the documents of doors", async () => {
    const { port } = await start();
    await refused(() => port.documents.list(KIND), "UNSUPPORTED");
    await refused(() => port.documents.put(KIND, "a", "1"), "UNSUPPORTED");
  });
}
