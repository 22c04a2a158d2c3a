import { Flow, type Role } from "./flow.ts";
import { drawScenario } from "./scenario.ts";
import type { FlowEngine } from "./world.ts";

export interface CrashOptions {
  seed: number;
  engine: FlowEngine;
  /** Crashes that are tried, drawn evenly; default: all. */
  most?: number;
}

/**
 * The flow of a seed: once undisturbed, to learn which calls its processes make to the engine. Then once for each of
 * these calls and each of its two ends, with a process that dies there. Each time everything must complete.
 */
export async function crashEverywhere({ seed, engine, most }: CrashOptions): Promise<{ runs: number }> {
  const scenario = drawScenario(seed);
  const run = async (crash?: { role: Role; at: { call: number; when: "before" | "after" } }) => {
    try {
      return await new Flow(engine, scenario, crash).run();
    } catch (error) {
      const where = crash
        ? `the ${crash.role} dies ${crash.at.when} its call ${crash.at.call}`
        : "no process dies";
      throw new Error(
        `seed ${seed}, ${where}: ${(error as Error).message}\n${JSON.stringify(scenario)}\n\n` +
          `Replay: npm run simulate -- --flows --seed ${seed} --engine ${engine}`,
        { cause: error },
      );
    }
  };
  const calls = await run();
  const crashes = (["worker", "verifier"] as const).flatMap((role) =>
    Array.from({ length: calls[role] }, (_, i) => i + 1).flatMap((call) =>
      (["before", "after"] as const).map((when) => ({ role, at: { call, when } })),
    ),
  );
  const every = most === undefined ? 1 : Math.max(1, crashes.length / most);
  let runs = 1;
  for (let i = seed % Math.ceil(every); i < crashes.length; i += every) {
    await run(crashes[Math.floor(i)]);
    runs++;
  }
  return { runs };
}
