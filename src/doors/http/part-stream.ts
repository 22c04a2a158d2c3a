import { isDibsError } from "../../core/errors/errors.ts";

/**
 * The body of a response that has no end: the events (door.ts) and the dashboard's live feed (dashboard.ts). The next
 * part is requested when the connection has taken the last one. Hono's own streams take 10 to 40 µs more CPU per part,
 * because they pass it through three platform streams. Ten readers of events get up to 200 parts a second.
 */
export interface PartStreamOptions {
  /** Called when the client is gone, and after the last part. */
  onEnd: () => void;
  onFailure: (error: unknown) => void;
  /** A part that is sent every so many milliseconds as well, whatever happens. */
  beat?: { text: string; everyMs: number };
}

export function streamParts(
  parts: AsyncIterator<string | Uint8Array, void>,
  { onEnd, onFailure, beat }: PartStreamOptions,
): ReadableStream<Uint8Array> {
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  const end = (): void => {
    isOver = true;
    clearInterval(timer);
    onEnd();
    // The generator waits at the last part it gave, and would not notice that the client is gone.
    parts.return?.().catch(onFailure);
  };
  return new ReadableStream(
    {
      start(controller) {
        if (!beat) return;
        const bytes = bytesOf(beat.text);
        // At most one such part waits for a client that does not read.
        const send = (): void => {
          if (controller.desiredSize === 0) controller.enqueue(bytes);
        };
        timer = setInterval(send, beat.everyMs);
        timer.unref();
      },
      async pull(controller) {
        try {
          const { done, value } = await parts.next();
          if (isOver) return;
          if (!done) return controller.enqueue(bytesOf(value));
        } catch (error) {
          // The store is closing: the stream ends, and its reader connects again.
          if (!isDibsError(error) || error.code !== "CLOSED") onFailure(error);
        }
        if (isOver) return;
        end();
        controller.close();
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}

function bytesOf(part: string | Uint8Array): Uint8Array {
  return typeof part === "string" ? Buffer.from(part) : part;
}
