import { simulateSeeds } from "./shards.ts";

simulateSeeds(501, 1_000);
