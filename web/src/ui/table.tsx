/** A list of rows. Only those in view exist as elements, so thousands cost no more than fifty. */

import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
  type VirtualizerOptions,
} from "@tanstack/virtual-core";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";
import { isNarrow } from "../store/preferences.ts";

export interface Column<Row> {
  name: string;
  /** A track of CSS grid: "80px", "minmax(160px, 2fr)". */
  width: string;
  cell: (row: Row) => ComponentChildren;
  /** Its track on narrow screens, where it differs. */
  narrow?: string;
  number?: boolean;
  /** Left out on narrow screens. */
  wide?: boolean;
  /** Clicking the header sorts by it. */
  sort?: { by: string; current: string; pick(by: string): void };
}

interface TableProps<Row> {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  keyOf: (row: Row) => string;
  /** Makes the whole row a link: the cell that has a `cover` link. */
  linked?: boolean;
  rowClass?: (row: Row) => string;
}

const ROW = 36;
/** Shorter lists are plain elements in the page's own scroll. */
const VIRTUAL_FROM = 200;

export function Table<Row>(props: TableProps<Row>) {
  const columns = props.columns.filter((column) => !(isNarrow.value && column.wide));
  const tracks = columns.map(({ width, narrow }) => (isNarrow.value && narrow) || width).join(" ");
  return (
    <div
      class="table"
      role="table"
      aria-label={props.label}
      aria-rowcount={props.rows.length + 1}
      style={{ "--columns": tracks }}
    >
      {props.rows.length < VIRTUAL_FROM ? (
        <>
          <Header columns={columns} />
          <div role="rowgroup">
            {props.rows.map((row) => (
              <Row key={props.keyOf(row)} row={row} columns={columns} table={props} />
            ))}
          </div>
        </>
      ) : (
        <VirtualRows {...props} columns={columns} />
      )}
    </div>
  );
}

function Header<Row>({ columns }: { columns: Column<Row>[] }) {
  return (
    <div role="rowgroup">
      <div class="table-header" role="row">
        {columns.map(({ name, number, sort }) => (
          <div
            key={name}
            role="columnheader"
            class={number ? "number" : undefined}
            aria-sort={sort ? (sort.current === sort.by ? "descending" : "none") : undefined}
          >
            {sort ? (
              <button type="button" onClick={() => sort.pick(sort.by)}>
                {name}
                {sort.current === sort.by ? " ↓" : ""}
              </button>
            ) : (
              name || <span class="unseen">Actions</span>
            )}
          </div>
        ))}
      </div>
    </div>
  );
}

interface RowProps<Row> {
  row: Row;
  columns: Column<Row>[];
  table: TableProps<Row>;
  top?: number;
  index?: number;
}

function Row<Row>({ row, columns, table, top, index }: RowProps<Row>) {
  const kinds = ["table-row", table.linked ? "linked" : "", table.rowClass?.(row) ?? ""];
  const style =
    top === undefined
      ? undefined
      : { position: "absolute", left: 0, right: 0, top: `${top}px`, height: `${ROW}px` };
  return (
    <div
      class={kinds.filter(Boolean).join(" ")}
      role="row"
      style={style}
      aria-rowindex={index === undefined ? undefined : index + 2}
    >
      {columns.map(({ name, number, cell }) => (
        <div key={name} role="cell" class={number ? "number" : "clip"}>
          {cell(row)}
        </div>
      ))}
    </div>
  );
}

function VirtualRows<Row>(props: TableProps<Row>) {
  const scroller = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const options: VirtualizerOptions<HTMLDivElement, Element> = {
    count: props.rows.length,
    estimateSize: () => ROW,
    overscan: 8,
    getScrollElement: () => scroller.current,
    observeElementOffset,
    observeElementRect,
    scrollToFn: elementScroll,
    onChange: () => redraw(undefined),
    scrollMargin: ROW,
  };
  const [virtualizer] = useState(() => new Virtualizer(options));
  virtualizer.setOptions(options);
  // These are the names by which adapters of frameworks call the virtualizer.
  // oxlint-disable no-underscore-dangle
  useEffect(() => virtualizer._didMount(), []);
  useLayoutEffect(() => virtualizer._willUpdate());
  // oxlint-enable no-underscore-dangle
  return (
    <div class="table-scroll" ref={scroller} tabIndex={0}>
      <Header columns={props.columns} />
      <div role="rowgroup" style={{ position: "relative", height: `${props.rows.length * ROW}px` }}>
        {virtualizer.getVirtualItems().map(({ index, start }) => (
          <Row
            key={props.keyOf(props.rows[index]!)}
            row={props.rows[index]!}
            columns={props.columns}
            table={props}
            top={start - ROW}
            index={index}
          />
        ))}
      </div>
    </div>
  );
}
