/** Payloads as text. They come from anywhere, so nothing in them may act: not as markup, and not on the text around. */

import type { Shown } from "../ui/viewer.tsx";

export interface Described {
  text: string;
  kind: string;
  bytes: number;
}

export function describeValue({
  data,
  contentType = "application/json",
  encoding,
  truncated,
}: Shown): Described {
  if (encoding === "base64" && typeof data === "string") return describeBytes(data, contentType);
  if (typeof data === "string" && (truncated !== undefined || !contentType.includes("json")))
    return {
      text: data,
      kind: truncated === undefined ? contentType : `${contentType}, its beginning`,
      bytes: sizeOf(data),
    };
  const text = data === undefined ? "nothing" : JSON.stringify(data, null, 2);
  return { text, kind: "JSON", bytes: data === undefined ? 0 : sizeOf(JSON.stringify(data)) };
}

function sizeOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** Sixteen bytes a line, in hexadecimal and as characters. */
function describeBytes(base64: string, contentType: string): Described {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const part = [...bytes.subarray(at, at + 16)];
    const hex = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = part.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${text}`);
  }
  return { text: lines.join("\n"), kind: contentType, bytes: bytes.length };
}

export interface Part {
  text: string;
  hidden: boolean;
  name?: string;
}

/**
 * Characters that are invisible, or that change the order of the text around them, are written as their number.
 * Newlines and tabs stay.
 */
const HIDDEN =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

export function revealed(text: string): Part[] {
  const parts: Part[] = [];
  let from = 0;
  for (const { 0: character, index } of text.matchAll(HIDDEN)) {
    if (index > from) parts.push({ text: text.slice(from, index), hidden: false });
    const number = character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.push({ text: `\\u${number}`, hidden: true, name: `U+${number}, which is not visible` });
    from = index + 1;
  }
  if (from < text.length || parts.length === 0) parts.push({ text: text.slice(from), hidden: false });
  return parts;
}
