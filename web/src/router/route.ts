/** Where the reader is: the path below the page's mount point, and the filters in the query. The URL is the only store. */

import { computed, signal } from "@preact/signals";

export interface Route {
  /** Decoded segments: `queues/report%2Fextract` is ["queues", "report/extract"]. */
  path: string[];
  query: URLSearchParams;
}

export type Filters = Record<string, string | null | undefined>;

/** Of the mount point: "/", or "/prefix/" in another app. */
const base = new URL(document.baseURI).pathname;

export const route = signal<Route>(readRoute(location));
export const page = computed(() => route.value.path[0] ?? "");

addEventListener("popstate", () => (route.value = readRoute(location)));

function readRoute({ pathname, search }: Location): Route {
  const below = pathname.startsWith(base) ? pathname.slice(base.length) : "";
  const path = below.split("/").filter((segment) => segment !== "");
  return { path: path.map(decode), query: new URLSearchParams(search) };
}

/** A mistyped address must not break the page. */
function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** The address of a page: `linkTo(["queues", name], { range: "1h" })`. */
export function linkTo(path: string[], filters: Filters = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filters))
    if (value != null && value !== "") query.set(name, value);
  const text = query.toString();
  return base + path.map(encodeURIComponent).join("/") + (text === "" ? "" : `?${text}`);
}

export function go(address: string, { replace = false } = {}): void {
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  const before = route.value.path.join("/");
  route.value = readRoute(location);
  if (route.value.path.join("/") === before) return;
  scrollTo(0, 0);
  // A screen reader reads the new page from its start.
  document.getElementById("page")?.focus({ preventScroll: true });
}

/** Changes filters and stays on the page. Typing does not fill the history. */
export function filter(changes: Filters): void {
  const { path, query } = route.value;
  go(linkTo(path, { ...Object.fromEntries(query), ...changes }), { replace: true });
}

/** Links are plain `<a href>`: this keeps the ones to pages of the dashboard inside it. */
export function followLinks(): void {
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element).closest?.("a[href]") as HTMLAnchorElement | null;
    if (!link || link.target !== "" || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || !link.pathname.startsWith(base) || link.hash !== "") return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}
