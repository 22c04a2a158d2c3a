import { execFile } from "node:child_process";

/** How pools and alerts tell something outside of dibs: a webhook, or a command with facts in its environment. */
const TIMEOUT_MS = 30_000;

export async function postJson(
  url: string,
  body: object,
  headers: Record<string, string> = {},
): Promise<void> {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  await answer.body?.cancel();
  if (!answer.ok) throw new Error(`the webhook answered ${answer.status}.`);
}

export async function executeCommand(
  command: readonly string[],
  facts: Record<string, string>,
): Promise<void> {
  const [program, ...args] = command as [string, ...string[]];
  await new Promise<void>((resolve, reject) => {
    execFile(
      program,
      args,
      { env: { ...process.env, ...facts }, timeout: TIMEOUT_MS },
      (error, _, stderr) => {
        if (error) reject(new Error(stderr.trim().split("\n").at(-1) || error.message));
        else resolve();
      },
    );
  });
}
