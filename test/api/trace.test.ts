// Traces with OpenTelemetry's API: an add and the handler that it leads to are one trace, in whichever processes they
// run.

import { context, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-node";
import { afterAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { openPort } from "../../src/api/open.ts";
import { tracePort } from "../../src/api/trace.ts";
import { open } from "../../src/index.ts";
import { startServer } from "../server/start.ts";
import { openStore, STORES } from "../stores.ts";

const exporter = new InMemorySpanExporter();
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
const tracer = provider.getTracer("test");

beforeEach(() => {
  trace.disable();
  context.disable();
  provider.register();
  exporter.reset();
});
afterAll(() => provider.shutdown());

function spans() {
  return exporter.getFinishedSpans().map((span) => ({
    name: span.name,
    kind: span.kind,
    trace: span.spanContext().traceId,
    id: span.spanContext().spanId,
    parent: span.parentSpanContext?.spanId,
    links: span.links.map((link) => link.context.spanId),
    attributes: span.attributes,
    failed: span.status.code === SpanStatusCode.ERROR,
  }));
}

const find = (name: string) => spans().find((span) => span.name === name)!;

describe.each(STORES)("traces on %s", (store) => {
  test("the handler's span is the child of the add's, and tasks that it adds continue the trace", async () => {
    const dibs = await openStore(store);
    const [first, second] = [dibs.queue<number>("first"), dibs.queue<number>("second")];
    let inHandler: string | undefined;
    const ended = Promise.withResolvers<void>();
    first.work(async (task) => {
      inHandler = trace.getActiveSpan()?.spanContext().spanId;
      await task.add(second, 2);
    });
    second.work(() => ended.resolve());
    const task = await tracer.startActiveSpan("the caller's", async (span) => {
      const added = await first.add(1);
      span.end();
      return added;
    });
    await ended.promise;
    await expect.poll(() => find("process second")).toBeDefined();
    const [caller, send, process, next] = [
      find("the caller's"),
      find("send first"),
      find("process first"),
      find("process second"),
    ];
    expect(new Set([caller, send, process, next].map((span) => span.trace)).size).toBe(1);
    expect([send.parent, process.parent, next.parent]).toEqual([caller.id, send.id, process.id]);
    expect(inHandler).toBe(process.id);
    expect([process.links, next.links]).toEqual([[send.id], [process.id]]);
    expect(send).toMatchObject({ kind: SpanKind.PRODUCER, failed: false });
    expect(process).toMatchObject({
      kind: SpanKind.CONSUMER,
      attributes: {
        "messaging.system.name": "dibs",
        "messaging.destination.name": "first",
        "messaging.message.id": task.id,
        "dibs.attempt": 1,
      },
    });
  });
});

describe("traces", () => {
  test("spans record failures of the handler and of the add", async () => {
    const dibs = await openStore("memory");
    const queue = dibs.queue("q", { maxAttempts: 1 });
    queue.work(() => {
      throw new Error("no");
    });
    await expect((await queue.add(1)).result()).rejects.toMatchObject({ code: "TASK_DEAD" });
    await expect(queue.add(1, { groupKey: "" })).rejects.toMatchObject({ code: "INVALID" });
    expect(spans().map(({ name, failed, attributes }) => [name, failed, attributes["error.type"]])).toEqual([
      ["send q", false, undefined],
      ["process q", true, "Error"],
      ["send q", true, "INVALID"],
    ]);
  });

  test("the span of a batch links to all adds, and a published trace reaches every group", async () => {
    const dibs = await openStore("memory");
    const queue = dibs.queue<number>("q");
    await queue.add(1);
    await queue.add(2);
    const handled = Promise.withResolvers<void>();
    queue.workBatch(() => handled.resolve(), { max: 2 });
    await handled.promise;
    const sent = spans().filter(({ name }) => name === "send q");
    expect(find("process q")).toMatchObject({ links: sent.map(({ id }) => id), parent: undefined });

    const heard = Promise.withResolvers<void>();
    await dibs.subscribe("a.*", "g", () => heard.resolve()).ready;
    await dibs.topic("a.b").publish(1);
    await heard.promise;
    expect(spans().find(({ name }) => name.startsWith("process topic/"))?.parent).toBe(find("send a.b").id);
  });

  test("a trace context in a task's headers is kept", async () => {
    const dibs = await openStore("memory");
    const traceparent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
    const queue = dibs.queue("q");
    await queue.add(1, { headers: { traceparent, other: "x" } });
    expect(await queue.claim()).toMatchObject([{ headers: { traceparent, other: "x" } }]);
    expect(find("send q")).toMatchObject({ trace: "a".repeat(32), parent: "b".repeat(16) });
  });

  test("a trace passes through a server, which adds its own span; over HTTP too", async () => {
    const store = await openPort(":memory:", {});
    const server = await startServer(tracePort(store, "SERVER"));
    const dibs = await open(server.url);
    onTestFinished(async () => {
      await dibs.close();
      await server.close();
      await store.close();
    });
    await dibs.queue("q").add(1);
    const [atServer, atClient] = spans();
    expect(atServer).toMatchObject({ kind: SpanKind.SERVER, parent: atClient!.id });
    const traceparent = `00-${"c".repeat(32)}-${"d".repeat(16)}-01`;
    const init = (body: object) => ({
      method: "POST",
      headers: { "content-type": "application/json", traceparent, tracestate: "a=b" },
      body: JSON.stringify(body),
    });
    await fetch(`${server.url}/v1/queues/h/tasks`, init({ data: 1, headers: { own: "x" } }));
    await fetch(`${server.url}/v1/queues/h/batches`, init({ tasks: [{ data: 2 }] }));
    const claims = await dibs.queue("h").claim({ max: 2 });
    expect(claims.map(({ headers }) => headers)).toEqual([
      { traceparent, tracestate: "a=b", own: "x" },
      { traceparent, tracestate: "a=b" },
    ]);
  });

  test("without a registered tracer there are no spans and no headers", async () => {
    trace.disable();
    const dibs = await openStore("memory");
    const queue = dibs.queue("q");
    await queue.add(1);
    expect(await queue.claim()).toMatchObject([{ headers: {} }]);
    expect(spans()).toEqual([]);
  });
});
