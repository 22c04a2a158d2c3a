import { escapeControls } from "../core/errors/show.ts";
import { type Colour, paint } from "./output.ts";
import { clipTo, widthOf } from "./width.ts";

/** Tables for people: aligned columns, numbers on the right, cut to the width of a terminal. */
export interface Column<Row> {
  head: string;
  /** Numbers are right-aligned. */
  cell: (row: Row) => string | number;
  colour?: (row: Row) => Colour | undefined;
  /** Text that is read as a number, such as a rate: right-aligned. */
  isNumber?: boolean;
  /** The column that is cut if the table is wider than the terminal: long text such as an error. */
  isCut?: boolean;
  /** Left out if no row has something here. */
  isOptional?: boolean;
  /** Left out if the table is wider than the terminal: first the column with the lowest number. */
  dropsAt?: number;
}

const GAP = 2;
const NARROWEST = 12;
/** Columns are left out before the cut one gets narrower than this. */
const READABLE = 16;

export function printTable<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): void {
  for (const line of formatTable(rows, columns, process.stdout.isTTY ? process.stdout.columns : undefined))
    process.stdout.write(`${line}\n`);
}

/** The lines of a table. Cells are harmless: control characters are escaped. `width`: of the terminal. */
export function formatTable<Row>(
  rows: readonly Row[],
  given: readonly Column<Row>[],
  width?: number,
): string[] {
  const filled = given.filter(({ isOptional, cell }) => !isOptional || rows.some((row) => cell(row) !== ""));
  const columns = width === undefined ? filled : fitting(rows, filled, width);
  const cells = rows.map((row) => columns.map(({ cell }) => escapeControls(String(cell(row)))));
  const isNumber = columns.map(
    (column) => column.isNumber ?? rows.some((row) => typeof column.cell(row) === "number"),
  );
  const widths = columns.map((column) => widthOfColumn(rows, column));
  const cut = columns.findIndex(({ isCut }) => isCut);
  if (width !== undefined && cut >= 0) {
    const total = widths.reduce((sum, each) => sum + each + GAP, -GAP);
    widths[cut] = Math.max(NARROWEST, widths[cut]! - Math.max(0, total - width));
  }
  const lineOf = (row: string[], colourOf: (at: number) => Colour | undefined): string => {
    const parts = row.map((text, at) => {
      const shown = clipTo(text, widths[at]!);
      const space = " ".repeat(widths[at]! - widthOf(shown));
      const isLast = at === row.length - 1;
      const painted = paint(colourOf(at), shown);
      return isNumber[at] ? space + painted : painted + (isLast ? "" : space);
    });
    return parts.join(" ".repeat(GAP)).trimEnd();
  };
  const head = lineOf(
    columns.map((column) => column.head),
    () => "faint",
  );
  return [head, ...cells.map((row, index) => lineOf(row, (at) => columns[at]!.colour?.(rows[index]!)))];
}

function widthOfColumn<Row>(rows: readonly Row[], { head, cell }: Column<Row>): number {
  return rows.reduce((most, row) => Math.max(most, widthOf(escapeControls(String(cell(row))))), head.length);
}

/** Without the columns that a table of this width has no room for. */
function fitting<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  width: number,
): readonly Column<Row>[] {
  const leastOf = (column: Column<Row>): number => {
    const natural = widthOfColumn(rows, column);
    return column.isCut ? Math.min(READABLE, natural) : natural;
  };
  let total = columns.reduce((sum, column) => sum + leastOf(column) + GAP, -GAP);
  const dropped = new Set<Column<Row>>();
  for (const column of columns.filter((each) => each.dropsAt !== undefined).toSorted(byDrop)) {
    if (total <= width) break;
    dropped.add(column);
    total -= leastOf(column) + GAP;
  }
  return columns.filter((column) => !dropped.has(column));
}

function byDrop(one: { dropsAt?: number }, other: { dropsAt?: number }): number {
  return one.dropsAt! - other.dropsAt!;
}
