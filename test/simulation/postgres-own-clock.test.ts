import { afterAll } from "vitest";
import { endSubjects } from "./postgres.ts";
import { simulateSeeds } from "./shards.ts";

// As many as fit in half a minute; more by hand: npm run simulate -- --engine postgres-own-clock --seeds 10000
simulateSeeds(1, 40, "postgres-own-clock");

afterAll(endSubjects);
