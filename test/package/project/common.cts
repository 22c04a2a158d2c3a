// A user's program that TypeScript compiles to CommonJS, checked against the published types and then run.

import { type Claim, DibsError, open, type Queue, Reject } from "dibs";
import { dashboard, type DashboardHandler } from "dibs/dashboard";
import { ManualClock } from "dibs/testing";

interface Email {
  to: string;
}

async function main(): Promise<void> {
  const clock: ManualClock = new ManualClock();
  const dibs = await open(":memory:", { clock });
  const handler: DashboardHandler = dashboard(dibs, { authorize: () => ({ name: "ada" }) });
  const emails: Queue<Email, string> = dibs.queue<Email, string>("emails");
  const task = await emails.add({ to: "ada@example.com" });
  const [claim]: Claim<Email, string>[] = await emails.claim();
  // @ts-expect-error: an email has no such field
  void claim?.data.too;
  await claim?.ack(`sent to ${claim.data.to}`);
  const sent: string = await task.result();
  const refusal: unknown = await open("127.0.0.1:1").catch((error: unknown) => error);
  const code: string = refusal instanceof DibsError ? refusal.code : "none";
  console.log(sent, code, new Reject("no").message);
  await handler.close();
  await dibs.close();
}

void main();
