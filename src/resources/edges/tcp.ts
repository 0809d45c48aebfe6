import type { Db } from '../../db/pool.ts'
import type { RecordKey } from '../../distribution/records.ts'
import { tcpEdgeStatuses } from '../../health/shown.ts'
import type { InstallationSettings } from '../../http/route.ts'
import type { Caller } from '../../identity/caller.ts'
import { type Id, toId, type Uuid } from '../../kernel/ids.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { edgeGuard } from '../../operations/decision_change.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { checkCells, holdCells } from './cells.ts'
import {
  cellNodesKeys,
  checkHostports,
  checkInlineModules,
  checkTcpPorts,
  restrictionsKey,
  setHostports,
  setInlineModules,
} from './changes.ts'
import { limitingTcpPorts } from './hostports.ts'
import { moduleRoutes } from './module_routes.ts'
import { TcpEdge, TcpEdgeCreate, TcpEdgeQuery, TcpEdgeUpdate } from './schema.ts'
import { deleteEdge, type EdgeRow, findEdge, insertEdge, listEdges, updateEdge } from './store.ts'
import { toTcpEdge } from './view.ts'

const find = (db: Db, caller: Caller, id: Id<'edgtcp'>, lock: boolean) => findEdge(db, caller, 'tcp', id, lock)
const reread = async (tx: Db, caller: Caller, id: Uuid) => {
  const row = await find(tx, caller, toId('edgtcp', id), false)
  if (!row) throw new Error('an edge that is held by this transaction is not there')
  return row
}
const records = ({ id }: { id: Uuid }): RecordKey[] => [`tcp.${toId('edgtcp', id)}`]

const edges: Resource<{ id: 'edgtcp' }, EdgeRow, typeof TcpEdge> = {
  name: 'tcp_edges',
  quota: 'tcp_edges',
  path: '/edges/tcp',
  params: { id: 'edgtcp' },
  shape: TcpEdge,
  view: toTcpEdge,
  statuses: tcpEdgeStatuses,
  find,
  guard: edgeGuard(['update', 'delete']),
  records: (row, caller, verb) => [
    ...records(row),
    ...cellNodesKeys(row, caller),
    ...(verb === 'create' ? [restrictionsKey(caller.accountId)] : []),
  ],
}
const checkModules = checkInlineModules('tcp')
const check = (
  body: { hostports?: string[]; cells?: string[] | null },
  settings: InstallationSettings,
  isVendorClient: boolean,
) => {
  checkHostports(body)
  checkCells(body)
  checkTcpPorts(settings, body.hostports)
  checkModules(body, settings, isVendorClient)
}

/**
 * Call it last, after everything that may wait for another change of this account: from here on, other accounts' claims
 * wait for this transaction.
 */
async function claimPorts(
  tx: Db,
  caller: Caller,
  id: Uuid,
  { hostports }: { hostports?: string[] },
  { quotas }: InstallationSettings,
): Promise<void> {
  if (hostports) await limitingTcpPorts(tx, caller, quotas.tcp_ports, () => setHostports(tx, caller, id, hostports))
}

export const tcpEdgeRoutes = [
  createRoute(edges, {
    access: 'anyone',
    body: TcpEdgeCreate,
    errors: ['ERR_HOSTPORT_TAKEN', 'ERR_QUOTA'],
    check,
    async insert(tx, { caller, body, settings }) {
      await holdCells(tx, caller, body.cells)
      const id = await insertEdge(tx, caller, { kind: 'tcp', cells: body.cells, ...newAnnotations(body) })
      await setInlineModules(tx, caller, 'tcp', id, body)
      await claimPorts(tx, caller, id, body, settings)
      return reread(tx, caller, id)
    },
  }),
  getRoute(edges, { access: 'anyone' }),
  listRoute(edges, {
    access: 'anyone',
    field: 'tcp_edges',
    query: TcpEdgeQuery,
    select: (db, caller, query) => listEdges(db, caller, 'tcp', query),
  }),
  updateRoute(edges, {
    access: 'anyone',
    body: TcpEdgeUpdate,
    errors: ['ERR_HOSTPORT_TAKEN', 'ERR_QUOTA'],
    check,
    async apply(tx, { caller, body, settings }, before) {
      const { cells = before.cells } = body
      await holdCells(tx, caller, body.cells)
      await updateEdge(tx, caller, before.id, { cells, ...patchedAnnotations(before, body) })
      await setInlineModules(tx, caller, 'tcp', before.id, body)
      await claimPorts(tx, caller, before.id, body, settings)
      return reread(tx, caller, before.id)
    },
  }),
  deleteRoute(edges, { access: 'anyone', remove: (tx, { caller }, before) => deleteEdge(tx, caller, before.id) }),

  ...moduleRoutes(edges, 'tcp'),
]
