/** The pages of the rail, in its order. */

export interface PageLink {
  name: string;
  path: string[];
}

export const PAGES: readonly PageLink[] = [{ name: "Overview", path: [] }];
