/** The parts of an OpenAPI document that the page shows. */
interface Described {
  info: { title: string; description: string };
  paths: Record<string, Record<string, Operation>>;
  components?: { schemas?: Record<string, unknown> };
}

interface Operation {
  summary: string;
  parameters?: { name: string; in: string; required?: boolean; schema?: unknown }[];
  requestBody?: { content?: Record<string, { schema?: unknown }> };
  responses?: Record<string, { content?: Record<string, { schema?: unknown }> }>;
}

const STYLE = `body{font:16px/1.5 system-ui;max-width:60rem;margin:2rem auto;padding:0 1rem}
summary{cursor:pointer;padding:.3rem 0}summary span{color:#555;margin-left:1rem}
pre{background:#f5f5f5;padding:.5rem 1rem;overflow:auto;font-size:14px}details{border-top:1px solid #ddd}`;

/** The reference page at /docs. It has no script, so it needs nothing and can do no harm. */
export function describePage(document: Described): string {
  const { info, paths } = document;
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => section(document, method, path, operation)),
  );
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>${escape(info.title)}: HTTP</title>
<style>${STYLE}</style>
<h1>${escape(info.title)} over HTTP</h1>
<p>${escape(info.description)} For programs, all of this is in <a href="/openapi.json">/openapi.json</a>.</p>
${operations.join("\n")}</html>`;
}

function section(document: Described, method: string, path: string, operation: Operation): string {
  const { summary, parameters = [], requestBody, responses = {} } = operation;
  const named = parameters.map((each) => `${each.name} (${each.in}${each.required ? "" : ", optional"})`);
  const [status, response] = Object.entries(responses).find(([code]) => code.startsWith("2")) ?? [];
  const parts = [
    named.length > 0 ? `<p>${escape(named.join(", "))}</p>` : "",
    shape(document, "takes", requestBody?.content),
    shape(document, `answers ${status}`, response?.content) || `<p>answers ${status}</p>`,
  ];
  return `<details><summary><code>${method.toUpperCase()} ${escape(path)}</code><span>${escape(summary)}</span></summary>
${parts.join("\n")}</details>`;
}

function shape(document: Described, label: string, content?: Record<string, { schema?: unknown }>): string {
  const [type, { schema } = {}] = Object.entries(content ?? {})[0] ?? [];
  if (type === undefined) return "";
  if (schema === undefined) return `<p>${label} ${escape(type)}</p>`;
  return `<p>${label}</p><pre>${escape(JSON.stringify(writtenOut(document, schema), null, 2))}</pre>`;
}

/** Resolves references. No schema here contains itself, so this ends. */
function writtenOut(document: Described, schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map((part) => writtenOut(document, part));
  if (typeof schema !== "object" || schema === null) return schema;
  const { $ref } = schema as { $ref?: string };
  if ($ref !== undefined)
    return writtenOut(document, document.components?.schemas?.[$ref.split("/").at(-1)!] ?? {});
  return Object.fromEntries(Object.entries(schema).map(([key, part]) => [key, writtenOut(document, part)]));
}

function escape(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
