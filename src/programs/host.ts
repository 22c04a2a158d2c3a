import { join } from "node:path";
import { Guardian } from "./guardian.ts";
import { type Launch, Program, type Running } from "./launch.ts";

/** Where programs are started: by this process (OwnHost), or by smaller ones (launchers.ts). */
export interface Host {
  start(task: ProgramStart): Running;
  /** Ends what is left, waits for it, and removes the folder. */
  close(): Promise<void>;
}

/** What differs from one task to the next. */
export interface ProgramStart {
  /** Facts about the task. */
  env: Record<string, string>;
  input: string | Uint8Array;
  /** Called with each chunk that the program writes to standard error. */
  onError?: ((chunk: Buffer) => void) | undefined;
}

/** What all programs of a supervisor have in common. */
export interface HostOptions extends Pick<Launch, "command" | "env" | "killAfter"> {
  /** With the sockets. It is removed in the end, also when the supervisor is killed. */
  folder: string;
}

export class OwnHost implements Host {
  readonly #options: HostOptions;
  readonly #guardian: Guardian;

  constructor(options: HostOptions) {
    this.#options = options;
    const { folder, killAfter } = options;
    const groupsFile = join(folder, `groups-${process.pid}`);
    this.#guardian = new Guardian({ folder, groupsFile, killAfter });
  }

  start({ env, input, onError }: ProgramStart): Running {
    const { command, killAfter } = this.#options;
    const guardian = this.#guardian;
    let group: number | undefined;
    const program = new Program({
      command,
      env: { ...this.#options.env, ...env, DIBS_SUPERVISOR: guardian.mark },
      input,
      killAfter,
      onStart: (pid) => guardian.watch((group = pid)),
      onError,
    });
    const unwatch = (): void => {
      if (group !== undefined) guardian.unwatch(group);
    };
    program.ended.then(unwatch, unwatch);
    return program;
  }

  close(): Promise<void> {
    return this.#guardian.close();
  }
}
