import { simulateSeeds } from "./shards.ts";

simulateSeeds(1_001, 1_500);
