import { afterAll } from "vitest";
import { endSubjects } from "./postgres.ts";
import { simulateSeeds } from "./shards.ts";

simulateSeeds(1, "postgres");

afterAll(endSubjects);
