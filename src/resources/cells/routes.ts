import { Type } from 'typebox'
import { route } from '../../http/route.ts'
import { Closed } from '../../http/wire.ts'
import { cellsOf } from '../../operations/placement.ts'
import { findJoinedNodes, nodesIn } from '../edge_nodes/store.ts'

const Cell = Closed(
  {
    name: Type.String(),
    live_nodes: Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      description: 'Number of edge nodes of the cell that have reported recently. Null: only admins may know.',
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
      // As with /edge_nodes, where the edges run concerns only the account's admins.
      const joined = caller.role === 'admin' ? await findJoinedNodes(db) : undefined
      const live = edges.all().filter((node) => node.live)
      const cells = own.map((cell) => ({
        name: cell.name,
        live_nodes: joined ? nodesIn([cell], live, joined).length : null,
      }))
      return { body: { cells } }
    },
  }),
]
