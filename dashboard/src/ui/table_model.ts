import { type ReactNode, useMemo, useState } from 'react'

export type Column<Row> = {
  title: string
  titleHidden?: boolean
  /** Instead of the title, such as a box that selects all rows. */
  head?: ReactNode
  /**
   * `number` aligns right, `low` disappears on narrow screens; on a phone a cell has the place that its class names
   * (`a1`, `a2`, `b1`, `b2`, `c1`: line and side), or none.
   */
  className?: string
  /** In long tables, whose columns must not change while they scroll. */
  width?: string
  isRowHead?: boolean
  sortBy?: (row: Row) => string | number
  cell: (row: Row) => ReactNode
}

type Sort = { title: string; isDescending: boolean }
const compareTexts = new Intl.Collator('en', { numeric: true }).compare

/** Sorts by one column; the head of a column turns it around. */
export function useSorted<Row>(rows: readonly Row[], columns: readonly Column<Row>[], initial?: string) {
  const [sort, setSort] = useState<Sort | undefined>(
    initial ? { title: initial.replace(/^-/, ''), isDescending: initial.startsWith('-') } : undefined,
  )
  const by = columns.find(({ title }) => title === sort?.title)?.sortBy
  const isDescending = sort?.isDescending ?? false
  const sorted = useMemo(() => {
    if (!by) return rows
    const keyed = rows.map((row) => ({ row, key: by(row) }))
    keyed.sort((a, b) => (isDescending ? compare(b.key, a.key) : compare(a.key, b.key)))
    return keyed.map(({ row }) => row)
  }, [rows, by, isDescending])
  return {
    sorted,
    sort,
    sortBy: (title: string) =>
      setSort((before) => ({ title, isDescending: before?.title === title && !before.isDescending })),
  }
}

const compare = (a: string | number, b: string | number): number =>
  typeof a === 'number' && typeof b === 'number' ? a - b : compareTexts(String(a), String(b))
