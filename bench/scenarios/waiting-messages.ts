import { fill } from "../measure.ts";
import { megabytes, type Scenario } from "../scenario.ts";
import { megabytesOfGroup } from "../usage.ts";

export const waitingMessages: Scenario = {
  name: "waiting-messages",
  about:
    "memory of the AMQP server's processes while a million messages wait in a queue (100,000 without --long)",
  needs: ["amqp"],
  async run(bench) {
    const queue = await bench.connect("waiting");
    const { group, long } = bench.settings;
    const before = megabytesOfGroup(group!);
    const count = long ? 1_000_000 : bench.size(100_000, 1_000);
    await fill(queue, count);
    const after = megabytesOfGroup(group!);
    return [megabytes("with all of them waiting", after), megabytes("more than before", after - before)];
  },
};
