import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useLayoutEffect, useRef, useState } from 'react'
import { useDensity } from './preference.ts'
import type { Column } from './table_model.ts'
import { moveBetweenRows, TableRow } from './table_row.tsx'

export type RowsProps<Row> = {
  rows: readonly Row[]
  keyOf: (row: Row) => string
  columns: readonly Column<Row>[]
  rowClass: ((row: Row) => string | undefined) | undefined
  isTwoLine: boolean | undefined
}

/** The rows of a long table that are in sight; spacers stand for the others. */
export function RowsInSight<Row>({ rows, keyOf, columns, rowClass, isTwoLine }: RowsProps<Row>) {
  const body = useRef<HTMLTableSectionElement>(null)
  const [top, setTop] = useState(0)
  useLayoutEffect(() => {
    if (body.current) setTop(body.current.getBoundingClientRect().top + window.scrollY)
  }, [])
  // Once, and not for each of 100,000 rows: asking the window and the document for it takes a microsecond.
  const height = rowHeight(isTwoLine)
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => height,
    overscan: 4,
    scrollMargin: top,
  })
  const [density] = useDensity()
  // biome-ignore lint/correctness/useExhaustiveDependencies: the heights depend on it through the style sheet.
  useEffect(() => virtual.measure(), [density])
  const items = virtual.getVirtualItems()
  const above = (items[0]?.start ?? top) - top
  const below = virtual.getTotalSize() - ((items.at(-1)?.end ?? top) - top)
  return (
    <tbody ref={body} onKeyDown={moveBetweenRows}>
      <Spacer height={above} columns={columns.length} />
      {items.map(({ index }) => {
        const row = rows[index]
        return (
          row !== undefined && (
            <TableRow key={keyOf(row)} row={row} columns={columns} className={rowClass?.(row)} rowIndex={index + 2} />
          )
        )
      })}
      <Spacer height={below} columns={columns.length} />
    </tbody>
  )
}

/** As the style sheet has it, with the line below. */
function rowHeight(isTwoLine: boolean | undefined): number {
  if (window.innerWidth <= 900) return isTwoLine ? 92 : 70
  const compact = document.documentElement.dataset.density === 'compact'
  return (compact ? 32 : 40) + (isTwoLine ? 8 : 0)
}

/** Stands for the rows that are not in the page. */
function Spacer({ height, columns }: { height: number; columns: number }) {
  if (height <= 0) return null
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: a row of nothing cannot have the focus.
    <tr className="spacer" aria-hidden="true">
      <td colSpan={columns} style={{ height }} />
    </tr>
  )
}
