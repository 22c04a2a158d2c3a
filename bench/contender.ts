/** What is measured: dibs, or a peer in one of its modes. Scenarios know nothing else of it. */
export interface Contender {
  /** As it is shown; a mode that waits for the disk is called "…, synced". */
  name: string;
  /** What an acknowledged task survives in this mode, for the reader of the figures. */
  durability: string;
  /** Whether that includes a power cut. */
  synced: boolean;
  /** A tenth of the work tells its rate, and the whole would take minutes; but for these scenarios. */
  isSlow?: { but: readonly string[] };
  /** Scenarios that need something else skip this contender. */
  can: readonly Capability[];
  /** Why it cannot run on this machine, in words; undefined when it can. */
  missing(): string | undefined;
  /** Starts its server, with the data in `folder`. An embedded queue only chooses a file. */
  serve(folder: string): Promise<Service>;
  /** Opens a queue that nobody has used, or one that another process has opened. */
  connect(address: string, queue: string, traits?: QueueTraits): Promise<Connection>;
}

export type Capability =
  /** Many tasks in one call. */
  | "addMany"
  /** Ten levels of priority. */
  | "priority"
  /** Delays in milliseconds. */
  | "delay"
  /** An idle worker is told of a new task, instead of looking from time to time. */
  | "wakes";

export interface Service {
  /** What another process needs to connect. */
  address: string;
  stop(): Promise<void>;
}

export interface QueueTraits {
  /** Some brokers want to know beforehand. */
  priorities?: boolean;
}

export interface Connection {
  /** Resolves when the task is as safe as the contender's durability says. */
  add(data: Payload, options?: AddOptions): Promise<unknown>;
  addMany?(batch: Payload[]): Promise<unknown>;
  work(handler: (data: Payload) => void, options: WorkOptions): Promise<Consumer>;
  close(): Promise<void>;
}

export interface Payload {
  n: number;
  text: string;
}

export interface AddOptions {
  /** 0 to 9, higher first. */
  priority?: number;
  /** Milliseconds of the calendar. */
  runAt?: number;
}

export interface WorkOptions {
  /** Handlers at once. */
  concurrency: number;
  /** Tasks fetched ahead, where the contender can do that. */
  ahead: number;
}

export interface Consumer {
  /** Resolves when every task handled so far is acked, each on its own. */
  settled(): Promise<void>;
  stop(): Promise<void>;
}
