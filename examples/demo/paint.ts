// Text for a terminal: colours that NO_COLOR turns off, columns, bars and sparklines.

const ESC = "\u001b[";
const hasColour = process.stdout.isTTY && !process.env["NO_COLOR"];

function colour(code: number): (text: string) => string {
  return (text) => (hasColour && text !== "" ? `${ESC}${code}m${text}${ESC}0m` : text);
}

export const bold = colour(1);
export const dim = colour(2);
export const red = colour(31);
export const green = colour(32);
export const yellow = colour(33);
export const blue = colour(34);
export const cyan = colour(36);

/** Exactly `width` characters: cut with an ellipsis, or padded. Colours are added afterwards. */
export function left(text: string, width: number): string {
  if (width <= 0) return "";
  return text.length > width ? `${text.slice(0, width - 1)}…` : text.padEnd(width);
}

export function right(text: string | number, width: number): string {
  return String(text).padStart(width);
}

export function number(value: number): string {
  return Math.round(value).toLocaleString("en");
}

/** Minutes and seconds. */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

const EIGHTHS = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/** `value` of `full`, in eighths of a character. */
export function bar(value: number, full: number, width: number): string {
  const eighths = Math.round(Math.min(1, full > 0 ? value / full : 0) * width * 8);
  // A value above 0 must be visible.
  const shown = value > 0 ? Math.max(1, eighths) : 0;
  return left("█".repeat(Math.floor(shown / 8)) + EIGHTHS[shown % 8]!, width);
}

const STEPS = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

export function sparkline(values: number[], full: number, width: number): string {
  const shown = values.slice(-width).map((value) => {
    const step = Math.round((full > 0 ? value / full : 0) * (STEPS.length - 1));
    return STEPS[Math.min(step, STEPS.length - 1)]!;
  });
  return shown.join("").padStart(width);
}

export const terminal = {
  enter: `${ESC}?1049h${ESC}?25l`,
  leave: `${ESC}?25h${ESC}?1049l`,
  home: `${ESC}H`,
  restOfLine: `${ESC}K`,
  restOfScreen: `${ESC}J`,
};
