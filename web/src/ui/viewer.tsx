/** A payload or a result: JSON, text or bytes, of any size, with characters that would hide something made visible. */

import { useState } from "preact/hooks";
import { showBytes } from "../format/number.ts";
import { describeValue, revealed } from "../format/value.ts";
import { Button } from "./button.tsx";
import { CopyButton } from "./copy.tsx";

/** More is shown on request: laying out a megabyte of text takes seconds. */
const FIRST_CHARACTERS = 8_000;

export interface Shown {
  data: unknown;
  contentType?: string;
  encoding?: "base64" | undefined;
  /** The full size, if `data` is only its beginning. */
  truncated?: number | undefined;
}

export function Viewer({ title, value }: { title: string; value: Shown }) {
  const [all, setAll] = useState(false);
  const { text, kind, bytes } = describeValue(value);
  const shown = all ? text : text.slice(0, FIRST_CHARACTERS);
  return (
    <section class="viewer">
      <div class="viewer-head">
        <h3>{title}</h3>
        <span class="quiet">
          {kind}, {showBytes(value.truncated ?? bytes)}
        </span>
        <CopyButton text={text} label={`Copy ${title.toLowerCase()}`} />
      </div>
      <pre tabIndex={0} aria-label={title}>
        {revealed(shown).map((part, at) =>
          part.hidden ? (
            <mark key={at} title={part.name}>
              {part.text}
            </mark>
          ) : (
            part.text
          ),
        )}
      </pre>
      {text.length > shown.length && (
        <Button small onClick={() => setAll(true)}>
          Show all {showBytes(bytes)}
        </Button>
      )}
    </section>
  );
}
