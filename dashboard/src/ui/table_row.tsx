import { type KeyboardEvent, memo, type ReactNode } from 'react'
import type { Column } from './table_model.ts'

type RowProps<Row> = { row: Row; columns: readonly Column<Row>[]; className: string | undefined; rowIndex?: number }

// Remembered: scrolling then draws the rows that come into sight, and not those that are there.
export const TableRow = memo(function TableRow<Row>({ row, columns, className, rowIndex }: RowProps<Row>) {
  return (
    <tr className={className} aria-rowindex={rowIndex}>
      {columns.map(({ title, className, isRowHead, cell }) =>
        isRowHead ? (
          <th key={title} scope="row" className={className}>
            {cell(row)}
          </th>
        ) : (
          <td key={title} className={className}>
            {cell(row)}
          </td>
        ),
      )}
    </tr>
  )
}) as <Row>(props: RowProps<Row>) => ReactNode

/** Up and down go to the same control of another row: from link to link, from menu to menu. */
export function moveBetweenRows(event: KeyboardEvent<HTMLTableSectionElement>): void {
  const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
  const from = event.target as HTMLElement
  // Menus are drawn elsewhere, but React passes their events on.
  if (step === 0 || !event.currentTarget.contains(from) || from.matches('input, select, textarea')) return
  const row = from.closest('tr')
  const next = step === 1 ? row?.nextElementSibling : row?.previousElementSibling
  const place = row ? controlsIn(row).indexOf(from) : -1
  const to = next instanceof HTMLElement ? (controlsIn(next)[place] ?? controlsIn(next)[0]) : undefined
  if (!to) return
  event.preventDefault()
  to.focus()
}

const controlsIn = (row: HTMLElement): HTMLElement[] => [...row.querySelectorAll<HTMLElement>('a, button, input')]
