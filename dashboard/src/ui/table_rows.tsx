// biome-ignore-all lint/a11y/useSemanticElements: the rows of a table element cannot be placed by hand.
// biome-ignore-all lint/a11y/useFocusableInteractive: a row is not for the keyboard; the frame around them is.
import { useVirtualizer } from '@tanstack/react-virtual'
import { type ReactNode, useRef } from 'react'

type Props<Row> = {
  label: string
  rows: readonly Row[]
  keyOf: (row: Row) => string
  columns: readonly { title: string; className?: string; cell: (row: Row) => ReactNode }[]
  rowClass?: (row: Row) => string | undefined
  rowHeight: number
}

/**
 * A table of any length: only the rows in sight are in the page. It tells screen readers how many there are and which
 * these are, since they cannot count what is not there.
 */
export function VirtualTable<Row>({ label, rows, keyOf, columns, rowClass, rowHeight }: Props<Row>) {
  const frame = useRef<HTMLDivElement>(null)
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => frame.current,
    estimateSize: () => rowHeight,
    overscan: 12,
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
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard. */}
      <div className="virtual-frame" role="rowgroup" ref={frame} tabIndex={0} aria-label={`${label}, rows`}>
        <div style={{ height: virtual.getTotalSize(), position: 'relative' }} role="presentation">
          {virtual.getVirtualItems().map(({ index, start }) => {
            const row = rows[index]
            if (row === undefined) return null
            return (
              <div
                key={keyOf(row)}
                role="row"
                aria-rowindex={index + 2}
                className={`virtual-row ${rowClass?.(row) ?? ''}`}
                style={{ position: 'absolute', insetInline: 0, height: rowHeight, transform: `translateY(${start}px)` }}
              >
                {columns.map(({ title, className, cell }) => (
                  <div key={title} role="cell" className={className}>
                    {cell(row)}
                  </div>
                ))}
              </div>
            )
          })}
        </div>
      </div>
    </div>
  )
}
