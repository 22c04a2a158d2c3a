/** How many columns of a terminal a text takes. Tables and `dibs top` align with it. */

const COMBINING = /\p{M}|\u200d|\ufe0f/u;
/** East Asian wide characters and emoji. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{1f680}-\u{1f6ff}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]/u;
// oxlint-disable-next-line no-control-regex -- the whole of ASCII
const ASCII = /^[\u0000-\u007f]*$/;

export function widthOf(text: string): number {
  if (ASCII.test(text)) return text.length;
  let width = 0;
  for (const sign of text) width += signWidth(sign);
  return width;
}

/** The text, or its beginning and an ellipsis, in at most `width` columns. */
export function clipTo(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let shown = "";
  let left = width - 1;
  for (const sign of text) {
    left -= signWidth(sign);
    if (left < 0) break;
    shown += sign;
  }
  return `${shown}…`;
}

// oxlint-disable-next-line no-control-regex -- what starts and ends a colour begins with an escape
const COLOUR = /(\u001b\[\d*m)/;

/** As clipTo(), for text with colours: they take no columns, and the last one ends. */
export function clipPainted(line: string, width: number): string {
  const parts = line.split(COLOUR);
  if (parts.length === 1) return clipTo(line, width);
  const isColour = (at: number): boolean => at % 2 === 1;
  if (parts.reduce((sum, part, at) => sum + (isColour(at) ? 0 : widthOf(part)), 0) <= width) return line;
  let shown = "";
  let left = width;
  for (const [at, part] of parts.entries()) {
    if (isColour(at)) shown += part;
    else if (left > 0) {
      // If it fills the line to the end, something is missing after it.
      const clipped = widthOf(part) < left ? part : clipTo(`${part} `, left);
      shown += clipped;
      left -= widthOf(clipped);
    }
  }
  return shown;
}

function signWidth(sign: string): number {
  if (COMBINING.test(sign)) return 0;
  return WIDE.test(sign) ? 2 : 1;
}
