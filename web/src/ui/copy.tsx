import { useState } from "preact/hooks";
import { Button } from "./button.tsx";
import { sayError } from "./toast.tsx";

/** A line to copy: a command, an id. */
export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  return (
    <div class="copy">
      <code>{text}</code>
      <CopyButton text={text} label={label} />
    </div>
  );
}

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      if (!copyBySelection(text))
        return sayError("The browser did not allow copying: select the text instead.");
    }
    setCopied(true);
    setTimeout(() => setCopied(false), 1_500);
  }
  return (
    <Button small plain onClick={() => void copy()}>
      {copied ? "Copied" : label}
    </Button>
  );
}

/** Where the page is not served over HTTPS or from this machine, there is no clipboard API. */
function copyBySelection(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "unseen";
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
