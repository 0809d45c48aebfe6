import type { AccessTestRow } from '../../access/tests/load.ts'
import type { Db } from '../../db/pool.ts'
import type { Caller } from '../../identity/caller.ts'
import { invalidField } from '../../kernel/errors.ts'
import { type Id, toUuid } from '../../kernel/ids.ts'
import { formatAddress, parseAddress } from '../../kernel/ip/address.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { testGuard } from '../../operations/decision_change.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { findTarget } from '../edges/store.ts'
import { AccessTest, AccessTestCreate, AccessTestQuery, AccessTestUpdate } from './schema.ts'
import { deleteAccessTest, findAccessTest, insertAccessTest, listAccessTests, updateAccessTest } from './store.ts'
import { resultsOf, stableTestFields, toAccessTest } from './view.ts'

const accessTests: Resource<{ id: 'act' }, AccessTestRow, typeof AccessTest> = {
  name: 'access_tests',
  quota: 'access_tests',
  path: '/access_tests',
  params: { id: 'act' },
  shape: AccessTest,
  view: toAccessTest,
  find: findAccessTest,
  stableFields: stableTestFields,
  statuses: resultsOf,
  guard: testGuard,
}

type Target = AccessTest['target']
type Sent = { readonly address?: string; readonly target?: Target }

/** Fields allowed for each type of target. */
const fieldsOf = { api: [], dashboard: [], edge: ['edge_id'], route: ['route_id', 'path'] } as const

function check({ address, target }: Sent): void {
  if (address !== undefined && !parseAddress(address)) throw invalidField('address', 'must be an IPv4 or IPv6 address')
  if (!target) return
  const wanted: readonly string[] = fieldsOf[target.type]
  for (const name of ['edge_id', 'route_id', 'path'] as const) {
    const isSent = target[name] !== undefined
    if (isSent && !wanted.includes(name))
      throw invalidField(`target.${name}`, `must be omitted with type ${target.type}`)
    if (!isSent && wanted.includes(name)) throw invalidField(`target.${name}`, `is required with type ${target.type}`)
  }
}

const canonical = (address: string): string => {
  const parsed = parseAddress(address)
  if (!parsed) throw new Error('the address of a test was not checked')
  return formatAddress(parsed)
}

/** Resolves references to the stored form. Once the test exists, a foreign key protects its target. */
async function storedTarget(tx: Db, caller: Caller, { type, edge_id, route_id, path }: Target) {
  const has = async (id: Id, kind: string) => (await findTarget(tx, caller, id))?.kind === kind
  if (edge_id && !(await has(edge_id, 'tcp')))
    throw invalidField('target.edge_id', 'must be a TCP edge of this account')
  if (route_id && !(await has(route_id, 'route')))
    throw invalidField('target.route_id', 'must be a route of this account')
  const id = edge_id ?? route_id
  return { type, target_id: id ? toUuid(id) : null, path: path ?? null }
}

export const accessTestRoutes = [
  createRoute(accessTests, {
    summary: 'Create an access test. Refused if it fails',
    access: 'admin',
    body: AccessTestCreate,
    check,
    insert: async (tx, { caller, body }) =>
      insertAccessTest(tx, caller, {
        ...newAnnotations(body),
        ...(await storedTarget(tx, caller, body.target)),
        address: canonical(body.address),
        expect: body.expect,
      }),
  }),
  getRoute(accessTests, { access: 'anyone' }),
  listRoute(accessTests, { access: 'anyone', field: 'access_tests', query: AccessTestQuery, select: listAccessTests }),
  updateRoute(accessTests, {
    summary: 'Update an access test. Refused if it passed and would fail. Omitted fields keep their values',
    access: 'admin',
    body: AccessTestUpdate,
    check,
    apply: async (tx, { caller, body }, before) =>
      updateAccessTest(tx, caller, before.id, {
        ...before,
        ...patchedAnnotations(before, body),
        ...(body.target && (await storedTarget(tx, caller, body.target))),
        ...(body.address !== undefined && { address: canonical(body.address) }),
        expect: body.expect ?? before.expect,
      }),
  }),
  deleteRoute(accessTests, {
    access: 'admin',
    remove: (tx, { caller }, before) => deleteAccessTest(tx, caller, before.id),
  }),
]
