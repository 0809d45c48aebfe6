import { lazy, type ReactNode, Suspense } from 'react'
import { Icon } from './icons.tsx'
import type { RowsProps } from './rows_in_sight.tsx'
import { type Column, useSorted } from './table_model.ts'
import { moveBetweenRows, TableRow } from './table_row.tsx'

// Lazy: only long tables need it.
const loadRows = async () => ({ default: (await import('./rows_in_sight.tsx')).RowsInSight })
const RowsInSight = lazy(loadRows) as <Row>(props: RowsProps<Row>) => ReactNode

type Props<Row> = {
  label: string
  rows: readonly Row[]
  keyOf: (row: Row) => string
  /** Must be a stable array: a new one renders all rows again. */
  columns: readonly Column<Row>[]
  /** Initially sorted column; a minus means descending. */
  initialSort?: string
  /** Rows with a second line of smaller text. */
  isTwoLine?: boolean
  rowClass?: (row: Row) => string | undefined
  foot?: ReactNode
}

/** Shorter tables are rendered completely, so that the browser's own search works. */
const drawnWhole = 200

/**
 * A native table of any length, with sorting, a sticky header and arrow keys. A long table renders
 * only its visible rows.
 */
export function DataTable<Row>(props: Props<Row>) {
  const { label, rows, keyOf, columns, initialSort, isTwoLine, rowClass, foot } = props
  const { sorted, sort, sortBy } = useSorted(rows, columns, initialSort)
  const isLong = rows.length > drawnWhole
  const look = ['data-table', isTwoLine && 'two-line', isLong && 'fixed'].filter(Boolean).join(' ')
  return (
    <div className="frame">
      <table className={look} aria-label={label} aria-rowcount={isLong ? rows.length + 1 : undefined}>
        <colgroup>
          {columns.map(({ title, width }) => (
            <col key={title} style={isLong && width ? { width } : undefined} />
          ))}
        </colgroup>
        <thead>
          <tr>
            {columns.map((column) => (
              <Head key={column.title} column={column} sort={sort} onSort={sortBy} />
            ))}
          </tr>
        </thead>
        {isLong ? (
          <Suspense fallback={<tbody />}>
            <RowsInSight {...{ rows: sorted, keyOf, columns, rowClass, isTwoLine }} />
          </Suspense>
        ) : (
          <tbody onKeyDown={moveBetweenRows}>
            {sorted.map((row) => (
              <TableRow key={keyOf(row)} row={row} columns={columns} className={rowClass?.(row)} />
            ))}
          </tbody>
        )}
      </table>
      {foot && <div className="table-foot">{foot}</div>}
    </div>
  )
}

type HeadProps<Row> = {
  column: Column<Row>
  sort: { title: string; isDescending: boolean } | undefined
  onSort: (title: string) => void
}

function Head<Row>({ column: { title, className, sortBy, titleHidden, head }, sort, onSort }: HeadProps<Row>) {
  if (!sortBy)
    return (
      <th scope="col" className={className}>
        {head ?? <span className={titleHidden ? 'for-readers' : undefined}>{title}</span>}
      </th>
    )
  const direction = sort?.title !== title ? 'none' : sort.isDescending ? 'descending' : 'ascending'
  return (
    <th scope="col" className={className} aria-sort={direction}>
      <button type="button" className="sort" onClick={() => onSort(title)}>
        {title}
        <Icon name={direction === 'descending' ? 'sortDown' : 'sortUp'} />
      </button>
    </th>
  )
}
