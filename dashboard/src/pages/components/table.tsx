import { useState } from 'react'
import { DataTable } from '../../ui/data_table.tsx'
import { MoreMenu } from '../../ui/more_menu.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Toolbar } from '../../ui/toolbar.tsx'

type Row = { id: number; name: string }
export const rows: readonly Row[] = Array.from({ length: 10_000 }, (_, id) => ({ id, name: `Row ${id}` }))
const columns: Column<Row>[] = [
  { title: 'Name', className: 'a1', isRowHead: true, sortBy: ({ name }) => name, cell: ({ name }) => name },
  { title: 'Number', className: 'number b1', width: '120px', sortBy: ({ id }) => id, cell: ({ id }) => id },
  {
    title: 'Actions',
    titleHidden: true,
    className: 'menu-cell a2',
    width: '44px',
    cell: ({ name }) => (
      <MoreMenu label={`Actions for ${name}`} groups={() => [{ entries: [{ label: 'Edit', onAction: () => {} }] }]} />
    ),
  },
]

export function LongTable() {
  const [search, setSearch] = useState('')
  const [chosen, choose] = useState('all')
  const found = rows.filter(({ id, name }) => name.includes(search) && (chosen === 'all' || id % 2 === 0))
  return (
    <>
      <Toolbar
        search={search}
        onSearch={setSearch}
        placeholder="Name"
        chosen={chosen}
        onChoose={choose}
        chips={[
          { value: 'all', label: 'All', count: rows.length },
          { value: 'even', label: 'Even', count: rows.length / 2 },
        ]}
      />
      <DataTable label="Rows" rows={found} keyOf={({ id }) => String(id)} columns={columns} foot="A foot" />
    </>
  )
}
