import type { Command } from "commander";

/**
 * All verbs of the shell. A verb's module is loaded when it is used: loading all of them would triple the time in which
 * a verb starts. `dibs --help` needs only this table.
 */
export interface Verb {
  name: string;
  about: string;
  /** The heading under which `dibs --help` lists it. */
  group: "Work" | "Look and change" | "Stores and servers" | "The shell";
  load: () => Promise<Command>;
  /** Not for people: `dibs --help` does not list it. */
  isHidden?: true;
}

export const VERBS: readonly Verb[] = [
  {
    name: "add",
    about: "add a task, or one task for each line of JSON",
    group: "Work",
    load: async () => (await import("./commands/add.ts")).addCommand(),
  },
  {
    name: "work",
    about: "run a program on each task: dibs work QUEUE… -- COMMAND",
    group: "Work",
    load: async () => (await import("./commands/work.ts")).workCommand(),
  },
  {
    name: "queues",
    about: "list every queue, with the number of its tasks",
    group: "Look and change",
    load: async () => (await import("./commands/queues.ts")).queuesCommand(),
  },
  {
    name: "queue",
    about: "show, change, pause, purge or delete one queue",
    group: "Look and change",
    load: async () => (await import("./commands/queue.ts")).queueCommand(),
  },
  {
    name: "tasks",
    about: "list and search the tasks of a queue",
    group: "Look and change",
    load: async () => (await import("./commands/tasks.ts")).tasksCommand(),
  },
  {
    name: "task",
    about: "show, change, cancel, signal or retry one task; in a program, work on its own",
    group: "Look and change",
    load: async () => (await import("./commands/task.ts")).taskCommand(),
  },
  {
    name: "change",
    about: "cancel, promote, change or run again all tasks of a queue that match",
    group: "Look and change",
    load: async () => (await import("./commands/change.ts")).changeCommand(),
  },
  {
    name: "dead",
    about: "list, redrive, discard or export the dead letters of a queue",
    group: "Look and change",
    load: async () => (await import("./commands/dead.ts")).deadCommand(),
  },
  {
    name: "topics",
    about: "list the subscriptions, or those that a topic reaches",
    group: "Look and change",
    load: async () => (await import("./commands/topics.ts")).topicsCommand(),
  },
  {
    name: "schedules",
    about: "list, pause, resume, fire or delete schedules",
    group: "Look and change",
    load: async () => (await import("./commands/schedules.ts")).schedulesCommand(),
  },
  {
    name: "pipelines",
    about: "list the pipelines with their stages",
    group: "Look and change",
    load: async () => (await import("./commands/pipelines.ts")).pipelinesCommand(),
  },
  {
    name: "runs",
    about: "list the runs of a pipeline, the latest first",
    group: "Look and change",
    load: async () => (await import("./commands/runs.ts")).runsCommand(),
  },
  {
    name: "run",
    about: "show, signal or cancel one run of a pipeline",
    group: "Look and change",
    load: async () => (await import("./commands/run.ts")).runCommand(),
  },
  {
    name: "workers",
    about: "list the workers that run, in all processes",
    group: "Look and change",
    load: async () => (await import("./commands/workers.ts")).workersCommand(),
  },
  {
    name: "unhold",
    about: "end a hold early, of a group or of the whole queue",
    group: "Look and change",
    load: async () => (await import("./commands/unhold.ts")).unholdCommand(),
  },
  {
    name: "advise",
    about: "say how many workers the load of a queue needs, and why",
    group: "Look and change",
    load: async () => (await import("./commands/advise.ts")).adviseCommand(),
  },
  {
    name: "pool",
    about: "keep the right number of workers for queues: dibs pool QUEUE… -- COMMAND",
    group: "Work",
    load: async () => (await import("./commands/pool.ts")).poolCommand(),
  },
  {
    name: "pools",
    about: "list pools with their sizes, or the last decisions of one with their reasons",
    group: "Look and change",
    load: async () => (await import("./commands/pools.ts")).poolsCommand(),
  },
  {
    name: "simulate",
    about: "try the policy of a pool on a load, in virtual time",
    group: "Work",
    load: async () => (await import("./commands/simulate.ts")).simulateCommand(),
  },
  {
    name: "serve",
    about: "serve a store to any number of clients",
    group: "Stores and servers",
    load: async () => (await import("./commands/serve.ts")).serveCommand(),
  },
  {
    name: "demo",
    about: "serve a store with the traffic of a small shop, to look at",
    group: "Stores and servers",
    load: async () => (await import("./commands/demo.ts")).demoCommand(),
  },
  {
    name: "tokens",
    about: "create, list and revoke the tokens of a server",
    group: "Stores and servers",
    load: async () => (await import("./commands/tokens.ts")).tokensCommand(),
  },
  {
    name: "export",
    about: "write everything in a store to standard output, as lines of JSON: dibs export STORE > FILE",
    group: "Stores and servers",
    load: async () => (await import("./commands/export.ts")).exportCommand(),
  },
  {
    name: "import",
    about: "fill a new store with an export from standard input: dibs import STORE < FILE",
    group: "Stores and servers",
    load: async () => (await import("./commands/import.ts")).importCommand(),
  },
  {
    name: "move",
    about: "move everything in a store to a new one; if interrupted, the same command continues",
    group: "Stores and servers",
    load: async () => (await import("./commands/move.ts")).moveCommand(),
  },
  {
    name: "doctor",
    about: "say what is wrong with a store, a server or the set-up, and what to do",
    group: "The shell",
    load: async () => (await import("./commands/doctor.ts")).doctorCommand(),
  },
  {
    name: "top",
    about: "watch queues and workers live",
    group: "Look and change",
    load: async () => (await import("./commands/top.ts")).topCommand(),
  },
  {
    name: "completion",
    about: "print a script that completes commands in bash, zsh or fish",
    group: "The shell",
    load: async () => (await import("./commands/completion.ts")).completionCommand(),
  },
  {
    name: "complete",
    about: "print what may follow on the command line",
    group: "The shell",
    load: async () => (await import("./commands/complete.ts")).completeCommand(),
    isHidden: true,
  },
];

/** A verb's command, with its name and description from the table. */
export async function loadVerb({ name, about, group, load }: Verb): Promise<Command> {
  return (await load()).name(name).description(about).helpGroup(`${group}:`);
}
