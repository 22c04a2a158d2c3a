import { afterAll } from "vitest";
import { endSubjects } from "./postgres.ts";
import { simulateSeeds } from "./shards.ts";

// As many as fit in a minute; more by hand: npm run simulate -- --engine postgres --seeds 10000
simulateSeeds(1, 100, "postgres");

afterAll(endSubjects);
