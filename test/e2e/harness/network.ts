import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { userInfo } from "node:os";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Why a separate network cannot be created here; undefined if it can. With CI set, it must be possible. */
export async function whyNoNetwork(): Promise<string | undefined> {
  const why = await findWhy();
  if (why !== undefined && process.env["CI"])
    throw new Error(`There is no network apart: ${why}, and CI is set.`);
  return why;
}

async function findWhy(): Promise<string | undefined> {
  if (userInfo().uid !== 0) return "only root may make a network of its own";
  if (!["/usr/sbin/ip", "/sbin/ip"].some((path) => existsSync(path))) return "iproute2 is not installed";
  const name = `dibs-try-${process.pid}`;
  try {
    await run("ip", ["netns", "add", name]);
    await run("ip", ["netns", "del", name]);
    return undefined;
  } catch (error) {
    return `this system does not let root make one (${(error as Error).message.trim()})`;
  }
}

/** A separate machine: processes in their own network, with a cable to ours that can be unplugged. */
export class Network {
  /** Our end of the cable. */
  readonly address: string;
  readonly #name: string;
  readonly #cable: string;

  private constructor(number: number) {
    this.#name = `dibs-${process.pid}-${number}`;
    this.#cable = `dibs${process.pid % 1_000_000}${number}`.slice(0, 15);
    this.address = `10.231.${process.pid % 250}.${number * 4 + 1}`;
  }

  static async make(number: number, cleanUp: (undo: () => Promise<void>) => void): Promise<Network> {
    const network = new Network(number);
    cleanUp(() => network.#remove());
    await network.#lay();
    return network;
  }

  /** The command that starts a program in there: for the option `by` of a Program. */
  get by(): string[] {
    return ["ip", "netns", "exec", this.#name];
  }

  async #lay(): Promise<void> {
    const there = this.address.replace(/\d+$/, (last) => `${Number(last) + 1}`);
    const inside = ["netns", "exec", this.#name, "ip"];
    await run("ip", ["netns", "add", this.#name]);
    await run("ip", [
      "link",
      "add",
      this.#cable,
      "type",
      "veth",
      "peer",
      "name",
      "cable",
      "netns",
      this.#name,
    ]);
    await run("ip", ["addr", "add", `${this.address}/30`, "dev", this.#cable]);
    await run("ip", ["link", "set", this.#cable, "up"]);
    await run("ip", [...inside, "addr", "add", `${there}/30`, "dev", "cable"]);
    await run("ip", [...inside, "link", "set", "cable", "up"]);
  }

  /** Packets are lost from here on, without any error. */
  async pull(): Promise<void> {
    await run("ip", ["link", "set", this.#cable, "down"]);
  }

  async plug(): Promise<void> {
    await run("ip", ["link", "set", this.#cable, "up"]);
  }

  async #remove(): Promise<void> {
    // Removing one end removes the cable.
    await run("ip", ["netns", "del", this.#name]);
  }
}
