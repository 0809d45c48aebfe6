// biome-ignore-all lint/a11y/useSemanticElements: the rows of a table element cannot be placed by hand.
// biome-ignore-all lint/a11y/useFocusableInteractive: a row is not for the keyboard; the frame around them is.
// biome-ignore-all lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard.
import { useVirtualizer } from '@tanstack/react-virtual'
import { memo, type ReactNode, useRef } from 'react'

export type Column<Row> = { title: string; className?: string; cell: (row: Row) => ReactNode }
type Props<Row> = {
  label: string
  rows: readonly Row[]
  keyOf: (row: Row) => string
  /** The same array as long as it means the same: rows are drawn again only when it is another. */
  columns: readonly Column<Row>[]
  rowHeight: number
}

/**
 * A table of any length: only the rows in sight are in the page. It tells screen readers how many there are and which
 * these are, since they cannot count what is not there.
 */
function Table<Row>({ label, rows, keyOf, columns, rowHeight }: Props<Row>) {
  const frame = useRef<HTMLDivElement>(null)
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => frame.current,
    estimateSize: () => rowHeight,
    overscan: 8,
  })
  return (
    <div className="virtual" role="table" aria-label={label} aria-rowcount={rows.length + 1}>
      <div role="rowgroup" className="virtual-head">
        <div role="row" aria-rowindex={1} className="virtual-row">
          {columns.map(({ title, className }) => (
            <div key={title} role="columnheader" className={className}>
              {title}
            </div>
          ))}
        </div>
      </div>
      <div
        className="virtual-frame"
        role="rowgroup"
        ref={frame}
        tabIndex={0}
        aria-label={`${label}, rows`}
        style={{ height: rows.length * rowHeight }}
      >
        <div style={{ height: virtual.getTotalSize(), position: 'relative' }} role="presentation">
          {virtual.getVirtualItems().map(({ index, start }) => {
            const row = rows[index]
            return (
              row !== undefined && (
                <TableRow key={keyOf(row)} row={row} index={index} start={start} height={rowHeight} columns={columns} />
              )
            )
          })}
        </div>
      </div>
    </div>
  )
}
export const VirtualTable = memo(Table) as typeof Table

type RowProps<Row> = { row: Row; index: number; start: number; height: number; columns: readonly Column<Row>[] }

// Remembered: scrolling then draws the rows that come into sight, and not those that are there.
const TableRow = memo(function TableRow<Row>({ row, index, start, height, columns }: RowProps<Row>) {
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      className="virtual-row"
      style={{ position: 'absolute', insetInline: 0, height, transform: `translateY(${start}px)` }}
    >
      {columns.map(({ title, className, cell }) => (
        <div key={title} role="cell" className={className}>
          {cell(row)}
        </div>
      ))}
    </div>
  )
}) as <Row>(props: RowProps<Row>) => ReactNode
