import { Type } from 'typebox'
import { route } from '../../http/route.ts'
import { Closed } from '../../http/wire.ts'
import { cellsOf, countedNodes } from '../../operations/placement.ts'

const Cell = Closed(
  {
    name: Type.String(),
    live_nodes: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      description: 'Number of edge nodes of the cell that have reported recently. Null: only admins may know.',
    }),
    counted_nodes: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      description:
        'By how many nodes a `rate_limit` with the scope `cell` is divided: those that were not revoked, and were not silent for an hour. Null: not counted yet, or only admins may know.',
    }),
  },
  { title: 'Cell' },
)
const CellList = Closed({ cells: Type.Array(Cell) }, { title: 'CellList' })

export const cellRoutes = [
  route({
    operation: 'cells.list',
    summary: 'List the cells that serve the account',
    method: 'GET',
    path: '/cells',
    success: 200,
    response: CellList,
    access: 'anyone',
    async handle({ db, caller, edges }) {
      const own = await cellsOf(db, caller.accountId)
      // As with /edge_nodes, only admins see where the edges run.
      const live = caller.role === 'admin' ? edges.all().filter((node) => node.live) : undefined
      const counted = await countedNodes(db, own)
      const cells = own.map(({ id, name }) => ({
        name,
        live_nodes: live?.filter(({ cell }) => cell === name).length ?? null,
        counted_nodes: (live && counted.get(id)) ?? null,
      }))
      return { body: { cells } }
    },
  }),
]
