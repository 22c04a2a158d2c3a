/** Moves between the rows of a list: arrows and j and k, as in a mail program. Enter opens the row, as any link. */

const STEPS: Record<string, 1 | -1> = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 };
/** What is in the list of rows, or chosen in the inbox. */
const ROWS = ".table-row .cover, .inbox-item";

export function moveByKeys(): void {
  addEventListener("keydown", press);
}

function press(event: KeyboardEvent): void {
  const step = STEPS[event.key];
  if (step === undefined || event.ctrlKey || event.metaKey || event.altKey || isElsewhere(event.target))
    return;
  const rows = [...document.querySelectorAll<HTMLElement>(ROWS)];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  // Arrows scroll the page until a row is chosen.
  if (at < 0 && event.key.startsWith("Arrow")) return;
  const next = at < 0 ? rows[0] : rows[at + step];
  if (!next) return;
  event.preventDefault();
  next.focus({ preventScroll: true });
  next.closest(".table-row, .inbox-item")!.scrollIntoView({ block: "nearest" });
}

/** In a field, in a dialog, or on a control that has its own use for these keys. */
function isElsewhere(target: EventTarget | null): boolean {
  return (
    !(target instanceof HTMLElement) ||
    target.closest("input, textarea, select, summary, [contenteditable], dialog") !== null
  );
}
