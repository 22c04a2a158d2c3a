import { WebSocket } from "ws";
import { startTimer } from "../core/time/clock.ts";
import { DibsError, type ErrorData, errorFrom, isDibsError } from "../core/errors/errors.ts";
import { decode, encode } from "../protocol/codec.ts";
import { type Hello, PATH, type Refusal, VERSION, type Welcome } from "../protocol/messages.ts";

// Opens a WebSocket to a server and says hello. `link.ts` calls it for the first connection and each reconnection.

export interface Address {
  /** ws: or wss:, with the path. */
  url: string;
  /** For messages: without secrets. */
  where: string;
  token: string | undefined;
}

export interface Dialled {
  socket: WebSocket;
  welcome: Welcome["welcome"];
}

/**
 * The limit from the first packet to the welcome. Needed because a frozen server accepts connections and sends nothing.
 */
const PATIENCE_MS = 5_000;
/** Most bytes that are read of an error page, which may come from another kind of server. */
const LONGEST_REFUSAL = 16 * 1024;

/** `http://…` and `ws://…` mean the same server. */
export function addressOf(given: string, token: string | undefined): Address {
  const url = new URL(given);
  const isSecure = url.protocol === "https:" || url.protocol === "wss:";
  url.protocol = isSecure ? "wss:" : "ws:";
  url.username = "";
  url.password = "";
  url.hash = "";
  url.search = "";
  const base = url.pathname.replace(/\/+$/, "");
  url.pathname = base.endsWith(PATH) ? base : base + PATH;
  return { url: url.href, where: url.host, token };
}

/**
 * Opens one connection and calls `use` as soon as it is welcomed: frames may already follow the welcome. Rejects with
 * UNAVAILABLE if a retry may help.
 */
export function dial(
  { url, where, token }: Address,
  resume: Hello["hello"]["resume"],
  use: (dialled: Dialled) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, {
      perMessageDeflate: false,
      // No limit: a client trusts its server, and the answer of a claim can be large.
      maxPayload: 0,
      handshakeTimeout: PATIENCE_MS,
      ...(token !== undefined && { headers: { authorization: `Bearer ${token}` } }),
    });
    const stopTimer = startTimer(PATIENCE_MS, () => fail("it does not answer"));
    const fail = (reason: string | DibsError): void => {
      stopTimer();
      socket.removeAllListeners();
      // A late error event of a socket that was given up must not crash the process.
      socket.on("error", () => {});
      socket.terminate();
      reject(isDibsError(reason) ? reason : unreachable(where, reason));
    };
    // An idle connection does not keep a process alive. Waiting calls do.
    socket.on("upgrade", ({ socket: tcp }) => void tcp.unref());
    socket.on("unexpected-response", (_, response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (part: string) => body.length < LONGEST_REFUSAL && (body += part));
      response.on("end", () => fail(refusalFrom(response.statusCode ?? 0, body, where)));
    });
    socket.on("error", (error) => fail(error.message));
    socket.on("close", (code) => fail(`it closed the connection (${code})`));
    socket.on("open", () => {
      const hello: Hello = {
        hello: { versions: [VERSION], client: "dibs", ...(resume && { resume }) },
      };
      socket.send(encode(hello));
    });
    socket.once("message", (data) => {
      const answer = readWelcome((data as Buffer).toString(), where);
      if (isDibsError(answer)) return fail(answer);
      stopTimer();
      socket.removeAllListeners();
      use({ socket, welcome: answer });
      resolve();
    });
  });
}

function readWelcome(text: string, where: string): Welcome["welcome"] | DibsError {
  try {
    const message = decode(text) as Partial<Welcome & Refusal>;
    if (message.refused) return errorFrom(message.refused);
    if (message.welcome?.version === VERSION) return message.welcome;
  } catch {
    // The error below explains it.
  }
  return new DibsError(
    "UNSUPPORTED",
    `The server at ${where} is not a dibs server that this version supports.`,
  );
}

/** A dibs server refuses with a problem document (RFC 9457). Another server may answer anything. */
function refusalFrom(status: number, body: string, where: string): DibsError | string {
  try {
    const { code, detail } = JSON.parse(body) as { code?: ErrorData["code"]; detail?: string };
    if (code !== undefined && detail !== undefined) return errorFrom({ code, message: detail });
  } catch {
    // Not a problem document.
  }
  if (status === 401 || status === 403)
    return new DibsError("FORBIDDEN", `${where} refused the connection with HTTP status ${status}.`);
  return `it answered with HTTP status ${status}`;
}

function unreachable(where: string, reason: string): DibsError {
  return new DibsError(
    "UNAVAILABLE",
    `The dibs server at ${where} cannot be reached: ${reason}. Check the address, and that \`dibs serve\` runs there.`,
  );
}
