import { simulateSeeds } from "./shards.ts";

simulateSeeds(1_501, 2_000);
