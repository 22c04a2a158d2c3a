import { request } from "node:http";
import { DibsError, ERROR_CODES, type ErrorCode, invalid } from "../core/errors/errors.ts";

/** Calls the endpoint of the program's own task: the other side of task-socket.ts, for `dibs task extend` and others. */
export async function callSocket(
  method: "GET" | "POST" | "PUT",
  path: string,
  body?: object,
): Promise<Record<string, unknown>> {
  const socketPath = process.env["DIBS_SOCKET"];
  if (!socketPath)
    throw invalid("DIBS_SOCKET is not set: this command works in a program that `dibs work` started.");
  const { status, text } = await send(socketPath, method, path, body);
  const answer = JSON.parse(text) as Record<string, unknown>;
  if (status === 200) return answer;
  const code = ERROR_CODES.find((each) => each === answer["code"]) ?? ("UNAVAILABLE" satisfies ErrorCode);
  throw new DibsError(code, String(answer["message"]));
}

function send(
  socketPath: string,
  method: string,
  path: string,
  body: object | undefined,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, method, path, headers: { "content-type": "application/json" } });
    sent.on("response", (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => (text += chunk));
      response.on("end", () => resolve({ status: response.statusCode!, text }));
    });
    // The supervisor has taken the socket away, or is gone.
    sent.on("error", () =>
      reject(new DibsError("CLAIM_LOST", "The claim of this task is lost, or has ended.")),
    );
    sent.end(body && JSON.stringify(body));
  });
}
