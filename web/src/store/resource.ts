/** A list or a record that a page shows: fetched when the page opens, and again when the server says that it changed. */

import { useEffect, useRef, useState } from "preact/hooks";
import { inWords } from "../api/call.ts";

export interface Resource<T> {
  value: T | undefined;
  /** In words; the last value stays. */
  failure: string | null;
  reload: () => void;
}

/**
 * @param load is called again when one of `inputs` changes
 * @param everyMs again after this long, while the page is in view; 0: never
 */
export function useResource<T>(
  load: (signal: AbortSignal) => Promise<T>,
  inputs: readonly unknown[],
  everyMs = 0,
): Resource<T> {
  const [value, setValue] = useState<T | undefined>(undefined);
  const [failure, setFailure] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);
  const shown = useRef("");
  const key = JSON.stringify(inputs);

  useEffect(() => {
    const stop = new AbortController();
    // Another record: what is on screen is not it.
    if (shown.current !== key) setValue(undefined);
    shown.current = key;
    void (async () => {
      try {
        const loaded = await load(stop.signal);
        if (stop.signal.aborted) return;
        setValue(loaded);
        setFailure(null);
      } catch (error) {
        if (!stop.signal.aborted) setFailure(inWords(error));
      }
    })();
    return () => stop.abort();
  }, [key, turn]);

  useEffect(() => {
    if (everyMs === 0) return;
    const timer = setInterval(() => {
      if (!document.hidden) setTurn((count) => count + 1);
    }, everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);

  return { value, failure, reload: () => setTurn((count) => count + 1) };
}
