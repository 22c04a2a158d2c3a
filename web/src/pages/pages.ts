/** The pages of the rail, in its order. */

export interface PageLink {
  name: string;
  path: string[];
}

export const PAGES: readonly PageLink[] = [
  { name: "Overview", path: [] },
  { name: "Tasks", path: ["tasks"] },
  { name: "Workers", path: ["workers"] },
  { name: "Dead letters", path: ["dead"] },
  { name: "Topics", path: ["topics"] },
  { name: "Pipelines", path: ["pipelines"] },
  { name: "Schedules", path: ["schedules"] },
  { name: "Pools", path: ["pools"] },
  { name: "Alerts", path: ["alerts"] },
  { name: "Audit", path: ["audit"] },
];
