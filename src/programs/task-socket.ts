import { chmodSync, renameSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { join } from "node:path";
import { invalid, isDibsError } from "../core/errors/errors.ts";
import type { AddTarget } from "../worker/pending-additions.ts";
import type { Task } from "../worker/task.ts";

/**
 * The endpoint that a program talks to about its task: HTTP and JSON on a Unix socket that only this user can open. Its
 * path is in DIBS_SOCKET. programs.ts has one for each program that may run at a time, and lends it to one task after
 * the other. Paths and answers are documented in docs/guides/programs.md.
 *
 * Each task gets the socket under a new name, and connections end with the task. So a process that can still reach it
 * works on this task: a process that an earlier task left behind has a name that no longer exists. Renaming costs a
 * tenth of a new socket.
 */

/** How a program's `add` finds its queue. */
export type FindQueue = (name: string) => AddTarget<unknown, object>;

type Call = (task: Task, body: Record<string, unknown>, name: string) => Promise<unknown>;

/** A step of at most 256 KiB, with room for its name. */
const MOST_BYTES = 512 * 1024;

export class TaskSocket {
  readonly #folder: string;
  readonly #server: Server;
  readonly #calls: Record<string, Call>;
  #path: string;
  #task: Task | undefined;

  private constructor(folder: string, path: string, findQueue: FindQueue) {
    this.#folder = folder;
    this.#path = path;
    this.#server = createServer((request, response) => void this.#answer(request, response));
    this.#server.unref();
    this.#calls = callsWith(findQueue);
  }

  static async open(folder: string, number: number, findQueue: FindQueue): Promise<TaskSocket> {
    const path = join(folder, `free-${number}`);
    const socket = new TaskSocket(folder, path, findQueue);
    await new Promise<void>((resolve, reject) => {
      socket.#server.once("error", reject);
      socket.#server.listen(path, resolve);
    });
    // The folder is closed to others already.
    chmodSync(path, 0o600);
    return socket;
  }

  /** Lends it to a task. Returns its path. */
  begin(task: Task): string {
    this.#task = task;
    const path = join(this.#folder, String(task.fence));
    renameSync(this.#path, path);
    this.#path = path;
    return path;
  }

  end(): void {
    this.#task = undefined;
    this.#server.closeAllConnections();
  }

  close(): void {
    this.end();
    this.#server.close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const task = this.#task;
    try {
      if (!task) throw invalid("This socket belongs to no task.");
      const [, path = "", name = ""] = request.url!.split("/");
      const call = this.#calls[`${request.method} /${path}`];
      if (!call) throw invalid(`There is no ${request.method} ${request.url}: see docs/guides/programs.md.`);
      const body = request.method === "GET" ? {} : await readBody(request);
      send(response, 200, (await call(task, body, decodeURIComponent(name))) ?? {});
    } catch (error) {
      send(response, statusOf(error), errorOf(error));
    }
  }
}

/** Marks a step that is not stored. It is compared by identity, so no step of the program can look like it. */
const NOT_STORED = new Error("There is no such step.");

function callsWith(findQueue: FindQueue): Record<string, Call> {
  return {
    "GET /task": async (task) => ({
      id: task.id,
      queue: task.queue,
      attempt: task.attempt,
      fence: task.fence,
      headers: task.headers,
      isAborted: task.signal.aborted,
    }),
    "POST /extend": async (task, { lease }) => task.extend(lease as never),
    "POST /progress": async (task, { value, note }) => task.progress(value as number, note as string),
    "POST /log": async (task, { text }) => task.log(text as string),
    "GET /steps": async (task, _, name) => {
      try {
        return { stored: true, value: await task.step(name, () => Promise.reject(NOT_STORED)) };
      } catch (error) {
        if (error === NOT_STORED) return { stored: false };
        throw error;
      }
    },
    // The first value stays: a later attempt gets it too.
    "PUT /steps": async (task, { value }, name) => ({ value: await task.step(name, () => value) }),
    "POST /add": async (task, { queue, data = null, ...options }) => {
      if (typeof queue !== "string") throw invalid('add takes {"queue": "NAME", "data": …}.');
      await task.add(findQueue(queue), data, options);
    },
  };
}

async function readBody(request: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength;
    if (bytes > MOST_BYTES) throw invalid(`The request has more than ${MOST_BYTES} bytes.`);
    chunks.push(chunk);
  }
  let body: unknown;
  try {
    body = JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {
    throw invalid("The request's body is not JSON.");
  }
  if (typeof body === "object" && body !== null && !Array.isArray(body))
    return body as Record<string, unknown>;
  throw invalid("The request's body must be a JSON object.");
}

/** 409: the claim is lost, and the program should end. */
function statusOf(error: unknown): number {
  if (!isDibsError(error)) return 500;
  if (error.code === "CLAIM_LOST") return 409;
  return error.code === "INVALID" || error.code === "PAYLOAD_TOO_LARGE" ? 400 : 503;
}

function errorOf(error: unknown): { code: string; message: string } {
  const code = isDibsError(error) ? error.code : "UNAVAILABLE";
  return { code, message: (error as Error).message };
}

function send(response: ServerResponse, status: number, body: unknown): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(text),
  });
  response.end(text);
}
