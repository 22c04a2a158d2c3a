import { readdir, readFile } from "node:fs/promises";
import { extname, join } from "node:path";

/** The page of the dashboard as files: built into the package, or built on first use in a clone. */

const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".ico": "image/x-icon",
  ".webp": "image/webp",
  ".woff2": "font/woff2",
  ".json": "application/json",
  ".txt": "text/plain; charset=utf-8",
};

/** No code in the page itself, nothing from another origin, and no other page may show this one in a frame. */
export const PAGE_HEADERS = {
  "content-security-policy": [
    ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:"],
    ...["font-src 'self'", "connect-src 'self'", "manifest-src 'self'"],
    ...["base-uri 'self'", "form-action 'none'", "frame-ancestors 'none'"],
  ].join("; "),
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

const BASE = /<base href="\/"\s*\/?>/;
const COMPRESSED = [
  ["br", ".br"],
  ["gzip", ".gz"],
] as const;

export class WebFiles {
  readonly #files: ReadonlyMap<string, Buffer>;

  /** @param folder with index.html and what it needs; read as a whole, because it has less than a megabyte */
  static async load(folder: string): Promise<WebFiles> {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true });
    const files = entries
      .filter((entry) => entry.isFile())
      .map(async ({ parentPath, name }) => {
        const path = join(parentPath, name);
        return [
          path.slice(folder.length).replaceAll("\\", "/").replace(/^\//, ""),
          await readFile(path),
        ] as const;
      });
    return new WebFiles(new Map(await Promise.all(files)));
  }

  constructor(files: ReadonlyMap<string, Buffer>) {
    this.#files = files;
  }

  /**
   * The answer to a GET or HEAD; undefined: nothing is there. Paths of the page's own views are all the same page.
   *
   * @param path below the place where the page is mounted, without a slash at its start
   * @param base that place, with slashes at both ends
   */
  respond(request: Request, path: string, base: string): Response | undefined {
    const wantsPage = path === "" || (request.headers.get("accept") ?? "").includes("text/html");
    if (path !== "index.html" && this.#files.has(path)) return this.#file(request, path);
    return wantsPage ? this.#page(request, base) : undefined;
  }

  #file(request: Request, path: string): Response {
    const accepted = request.headers.get("accept-encoding") ?? "";
    const [encoding, suffix] = COMPRESSED.find(
      ([name, end]) => accepted.includes(name) && this.#files.has(path + end),
    ) ?? [undefined, ""];
    // Assets have a hash of their content in their names.
    const isHashed = path.startsWith("assets/");
    return this.#answer(request, this.#files.get(path + suffix)!, {
      "content-type": TYPES[extname(path)] ?? "application/octet-stream",
      "cache-control": isHashed ? "public, max-age=31536000, immutable" : "no-cache",
      vary: "accept-encoding",
      ...(encoding !== undefined && { "content-encoding": encoding }),
    });
  }

  #page(request: Request, base: string): Response {
    const html = this.#files.get("index.html")!.toString();
    const escaped = base.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");
    const page = Buffer.from(html.replace(BASE, () => `<base href="${escaped}">`));
    return this.#answer(request, page, { "content-type": TYPES[".html"]!, "cache-control": "no-cache" });
  }

  #answer({ method }: Request, body: Buffer, headers: Record<string, string>): Response {
    return new Response(method === "HEAD" ? null : new Uint8Array(body), {
      headers: { ...PAGE_HEADERS, ...headers, "content-length": String(body.byteLength) },
    });
  }
}
