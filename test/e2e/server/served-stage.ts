import { createServer } from "node:net";
import type { Program } from "../harness/program.ts";
import type { Stage } from "../harness/stage.ts";

/** A server in its own process on the stage's file. From now on the stage's programs open the server. */
export class ServedStage {
  readonly #stage: Stage;
  readonly #options: object;
  readonly store: string;
  /** The address for its clients, the same in all its lives. */
  readonly url: string;
  #program: Program | undefined;

  private constructor(stage: Stage, port: number, options: object) {
    this.url = `http://127.0.0.1:${port}`;
    this.#stage = stage;
    this.#options = options;
    this.store = stage.file;
  }

  static async start(stage: Stage, options: object = {}): Promise<ServedStage> {
    const port = await freePort();
    const served = new ServedStage(stage, port, { url: stage.file, port, logLevel: "warn", ...options });
    await served.restart();
    stage.file = served.url;
    return served;
  }

  get program(): Program {
    return this.#program!;
  }

  /** Returns after how many milliseconds it was ready. */
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
