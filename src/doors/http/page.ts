/** As much of an OpenAPI document as the page shows. */
interface Described {
  info: { title: string; description: string };
  paths: Record<string, Record<string, { summary: string; tags?: string[] }>>;
}

/** The reference page: no script, so that it needs nothing and can do no harm. */
export function describePage({ info, paths }: Described): string {
  const rows = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(
      ([method, { summary }]) =>
        `<tr><td><code>${method.toUpperCase()}</code></td><td><code>${escape(path)}</code></td><td>${escape(summary)}</td></tr>`,
    ),
  );
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>${escape(info.title)}: HTTP</title>
<style>body{font:16px/1.5 system-ui;max-width:60rem;margin:2rem auto;padding:0 1rem}td{padding:.2rem 1rem .2rem 0;vertical-align:top}</style>
<h1>${escape(info.title)} over HTTP</h1>
<p>${escape(info.description)} Every shape is in <a href="/openapi.json">/openapi.json</a>.</p>
<table>${rows.join("\n")}</table></html>`;
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
