import { createServer } from "node:net";
import type { Program } from "../harness/program.ts";
import type { Stage } from "../harness/stage.ts";

/** A server in a process of its own on the stage's file; from now on the stage's programs open that. */
export class ServedStage {
  readonly #stage: Stage;
  readonly #options: object;
  readonly store: string;
  #program: Program | undefined;

  private constructor(stage: Stage, options: object) {
    this.#stage = stage;
    this.#options = options;
    this.store = stage.file;
  }

  static async start(stage: Stage, options: object = {}): Promise<ServedStage> {
    const port = await freePort();
    const served = new ServedStage(stage, { url: stage.file, port, logLevel: "warn", ...options });
    await served.restart();
    stage.file = `http://127.0.0.1:${port}`;
    return served;
  }

  get program(): Program {
    return this.#program!;
  }

  /** Answers after how many milliseconds it was ready. */
  async restart(): Promise<number> {
    const began = performance.now();
    this.#program = this.#stage.start("server.ts", this.#options);
    await this.#program.hears("ready");
    return performance.now() - began;
  }
}

/** The same for all lives of a server, so that its clients find it again. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
