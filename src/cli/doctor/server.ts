import { withoutSecrets } from "../../core/process/address.ts";
import { checkClock, type Finding, ok, problem, warning } from "./finding.ts";

const TIMEOUT_MS = 5_000;

/** Checks of a dibs server over HTTP, before a client connects. */
export async function checkServer(address: string): Promise<Finding[]> {
  // Opening the store says what is wrong with the address.
  if (!URL.canParse(address)) return [];
  const url = new URL(address.replace(/^ws/i, "http"));
  const shown = withoutSecrets(address);
  try {
    const before = Date.now();
    const answer = await fetch(new URL("/readyz", url), { signal: AbortSignal.timeout(TIMEOUT_MS) });
    const after = Date.now();
    const date = Date.parse(answer.headers.get("date") ?? "");
    const clock = Number.isNaN(date) ? [] : [checkClock("the server", date + 500, before, after)];
    return [checkReady(shown, answer.status, after - before), ...clock, ...checkTls(url)];
  } catch (error) {
    const cause = (error as Error).cause as NodeJS.ErrnoException | undefined;
    const why = cause?.code ?? cause?.message ?? (error as Error).name;
    return [
      problem(
        "server",
        `${shown} does not answer (${why}).`,
        "Start it (dibs serve), or look at the host, the port and the firewall.",
      ),
    ];
  }
}

function checkReady(shown: string, status: number, ms: number): Finding {
  if (status === 200) return ok("server", `${shown} is ready, and answered in ${ms} ms.`);
  if (status === 503)
    return problem(
      "server",
      `${shown} runs and is not ready: it is stopping, or cannot reach its store.`,
      "Look at its log.",
    );
  return problem(
    "server",
    `${shown} answers /readyz with status ${status}: it is probably not a dibs server.`,
    "Look at the address, and at proxies before the server.",
  );
}

function checkTls({ protocol, hostname }: URL): Finding[] {
  const isLocal = ["127.0.0.1", "localhost", "[::1]"].includes(hostname);
  if (protocol === "https:" || isLocal) return [];
  return [
    warning(
      "tls",
      `The connection to ${hostname} is not encrypted: tokens and payloads can be read on the way.`,
      "Use https: dibs serve --tls-cert … --tls-key …, or a proxy that has a certificate.",
    ),
  ];
}
