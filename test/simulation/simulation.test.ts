import { simulateSeeds } from "./shards.ts";

simulateSeeds(1);
