/** What is measured: dibs, or a peer in one of its modes. Scenarios use only this interface. */
export interface Contender {
  /** As it is shown; a mode that waits for the disk is called "…, synced". */
  name: string;
  /** What an acknowledged task survives in this mode, for the reader of the figures. */
  durability: string;
  /** Whether that includes a power cut. */
  synced: boolean;
  /** It gets a tenth of the work, because the whole would take minutes; except in these scenarios. */
  isSlow?: { but: readonly string[] };
  /** Scenarios that need something else skip this contender. */
  can: readonly Capability[];
  /** Why it cannot run on this machine; undefined if it can. */
  missing(): string | undefined;
  /** Starts its server, with the data in `folder`. An embedded queue only chooses a file. */
  serve(folder: string): Promise<Service>;
  /** Opens a new queue, or one that another process has opened. */
  connect(address: string, queue: string, traits?: QueueTraits): Promise<Connection>;
}

export type Capability =
  /** Many tasks in one call. */
  | "addMany"
  /** Ten levels of priority. */
  | "priority"
  /** Delays in milliseconds. */
  | "delay"
  /** An idle worker is notified of a new task instead of polling. */
  | "wakes"
  /** Speaks AMQP, in a process of its own. */
  | "amqp";

export interface Service {
  /** What another process needs to connect. */
  address: string;
  /** The process group of a server whose memory is measured. */
  group?: number;
  stop(): Promise<void>;
}

export interface QueueTraits {
  /** Some brokers must know this when the queue is created. */
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
  /** Milliseconds since 1970. */
  runAt?: number;
}

export interface WorkOptions {
  /** Handlers at once. */
  concurrency: number;
  /** Prefetched tasks, if the contender supports it; undefined: its default. */
  ahead?: number | undefined;
}

export interface Consumer {
  /** Resolves when every task handled so far is acked, each on its own. */
  settled(): Promise<void>;
  stop(): Promise<void>;
}
