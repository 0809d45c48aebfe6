// How each thing is, from what is known of it. What nothing is known of is never up.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { BackendId } from '../kernel/edge/backends.ts'
import { newId } from '../kernel/ids.ts'
import { type BackendContext, type BackendFacts, backendStatus, type ServerReport, serverStatus } from './backends.ts'
import { type EdgeContext, type HttpsEdgeFacts, httpsEdgeStatus, routeStatus, tcpEdgeStatus } from './edges.ts'
import { type NodeFacts, nodeStatus, onNodes } from './fleet.ts'
import { degraded, down, type Status, together, unknown, up, worstOf } from './status.ts'

const at = '2026-01-15T12:00:00.000Z'
const now = Date.parse('2026-01-15T13:00:00.000Z')
const shown = ({ state, code }: Status): string => `${state} ${code}`

const node = (name: string, fields: Partial<NodeFacts> = {}): NodeFacts => ({
  node: name,
  cell: 'default',
  live: true,
  lastSeenAt: at,
  isBehind: false,
  hasStorageFault: false,
  refused: new Map(),
  refusedUnlisted: false,
  uncovered: { names: new Set(), isComplete: true },
  ...fields,
})
const report = (name: string, fields: Partial<ServerReport> = {}): ServerReport => ({
  node: name,
  address: '192.0.2.7:80',
  status: 'up',
  reason: null,
  since: at,
  ...fields,
})
const [a, b] = [newId('bkdst'), newId('bkdst')]
const [group, failover, response] = [newId('bkdwd'), newId('bkdfo'), newId('bkdhr')]
const backend = (fields: Partial<BackendFacts> = {}): BackendFacts => ({
  id: a,
  kind: 'static',
  name: 'billing',
  hasCheck: true,
  isUsed: true,
  members: [],
  reports: [report('fra-1'), report('iad-1')],
  ...fields,
})
const context = (backends: BackendFacts[] = [backend()], fields: Partial<EdgeContext> = {}): EdgeContext => ({
  fleet: { isConnected: true, nodes: [node('fra-1'), node('iad-1')] },
  backends: new Map(backends.map((each) => [each.id, each])),
  withheld: new Map(),
  rollouts: new Map(),
  restrictionsKey: 'restrictions.ac_1',
  cellNodesKey: 'cell_nodes.ac_1',
  certificates: new Map(),
  now,
  ...fields,
})
const fleetOf = (...nodes: NodeFacts[]) => ({ fleet: { isConnected: true, nodes } })
const refused = { status: 'down', reason: 'connection refused' } as const

test('of things that must all work the worst counts; of things that share traffic, down means that none is left', () => {
  const [fine, part, gone, dark] = [
    up('a'),
    degraded('on_fallback', 'b'),
    down('no_backend', 'c'),
    unknown('not_checked', 'd'),
  ]
  assert.equal(worstOf(fine, dark, part, gone), gone)
  assert.equal(worstOf(fine, dark, part), part)
  assert.equal(worstOf(fine, dark), dark)
  assert.equal(together(gone, gone).state, 'down')
  assert.deepEqual(together(fine, gone), { ...gone, state: 'degraded' })
  assert.equal(together(dark, gone).state, 'degraded')
  assert.equal(together(fine, dark).state, 'unknown')
})

test('a server is down where every node says so', () => {
  assert.equal(shown(serverStatus([report('fra-1'), report('iad-1')])), 'up ok')
  assert.equal(shown(serverStatus([report('fra-1', refused), report('iad-1')])), 'degraded servers_down')
  assert.equal(shown(serverStatus([report('fra-1', refused), report('iad-1', refused)])), 'down servers_down')
  assert.equal(shown(serverStatus([report('fra-1', { status: 'failing' })])), 'degraded servers_failing')
  assert.match(serverStatus([report('fra-1', refused), report('iad-1')]).reason, /fra-1: connection refused\.$/)
})

test('a backend is as its servers are, as far as live nodes say', () => {
  const second = (name: string, fields: Partial<ServerReport> = {}) =>
    report(name, { address: '192.0.2.8:80', ...fields })
  const cases: [string, Partial<BackendFacts>, Partial<BackendContext>, string][] = [
    ['all answer', {}, {}, 'up ok'],
    [
      'one of two does not',
      { reports: [report('fra-1', refused), second('fra-1')] },
      fleetOf(node('fra-1')),
      'degraded servers_down',
    ],
    [
      'none answers',
      { reports: [report('fra-1', refused), second('fra-1', refused)] },
      fleetOf(node('fra-1')),
      'down servers_down',
    ],
    ['a node has not said', { reports: [report('fra-1')] }, {}, 'unknown not_checked_yet'],
    [
      'a node of another cell has not said',
      {},
      fleetOf(node('fra-1'), node('iad-1'), node('syd-1', { cell: 'au' })),
      'up ok',
    ],
    ['no node has said', { reports: [] }, {}, 'unknown not_checked_yet'],
    ['without a check', { reports: [], hasCheck: false }, {}, 'unknown not_checked'],
    [
      'without a check, and requests fail',
      { reports: [report('fra-1', { status: 'failing' })], hasCheck: false },
      {},
      'degraded servers_failing',
    ],
    ['not used', { reports: [], isUsed: false }, {}, 'unknown not_used'],
    [
      'refused by a node',
      {},
      fleetOf(node('fra-1', { refused: new Map([[`backend.${a}`, 'not allowed']]) }), node('iad-1')),
      'degraded record_refused',
    ],
    [
      'refused by all',
      {},
      fleetOf(node('fra-1', { refused: new Map([[`backend.${a}`, 'not allowed']]) })),
      'down record_refused',
    ],
    ['withheld', {}, { withheld: new Map([[`backend.${a}`, 'too large']]) }, 'degraded record_withheld'],
    [
      'halted',
      {},
      { rollouts: new Map([[`backend.${a}`, { id: 'ro_1', state: 'halted', reason: 'bad' } as const]]) },
      'degraded rollout_halted',
    ],
    [
      'watched',
      {},
      { rollouts: new Map([[`backend.${a}`, { id: 'ro_1', state: 'watching', reason: null } as const]]) },
      'up ok',
    ],
    ['no node is live', { reports: [] }, fleetOf(node('fra-1', { live: false })), 'unknown no_live_node'],
    ['no node has ever reported', { reports: [] }, fleetOf(), 'down no_nodes'],
    [
      'NATS is away',
      { reports: [] },
      { fleet: { isConnected: false, nodes: [node('fra-1', { live: false })] } },
      'unknown control_plane_blind',
    ],
  ]
  for (const [name, facts, fields, expected] of cases)
    assert.equal(shown(backendStatus(a, context([backend(facts)], fields))), expected, name)
  assert.equal(shown(backendStatus(a, context([]))), 'down backend_missing')
})

test('a group is as its members are', () => {
  const fallback = backend({ id: b, name: 'fallback' })
  const broken = backend({ reports: [report('fra-1', refused), report('iad-1', refused)] })
  const of = (id: BackendId, kind: BackendFacts['kind'], weights: (number | null)[], ...members: BackendFacts[]) => {
    const facts = backend({
      id,
      kind,
      reports: [],
      hasCheck: false,
      members: members.map((each, index) => ({ id: each.id, weight: weights[index] ?? null })),
    })
    return shown(backendStatus(id, context([facts, ...members])))
  }
  assert.equal(of(group, 'weighted', [50, 50], backend(), fallback), 'up ok')
  assert.equal(of(group, 'weighted', [50, 50], broken, fallback), 'degraded servers_down')
  assert.equal(
    of(group, 'weighted', [0, 50], broken, fallback),
    'up ok',
    'a member that gets no traffic does not matter',
  )
  assert.equal(of(group, 'weighted', [0, 0], broken, fallback), 'down no_weight')
  assert.equal(of(group, 'weighted', [50], broken), 'down servers_down')
  assert.equal(of(failover, 'failover', [], backend(), fallback), 'up ok')
  assert.equal(of(failover, 'failover', [], broken, fallback), 'degraded on_fallback')
  assert.equal(of(failover, 'failover', [], fallback, broken), 'degraded servers_down')
  assert.equal(of(failover, 'failover', [], broken), 'down servers_down')
  assert.equal(
    of(failover, 'failover', [], broken, backend({ id: response, kind: 'http_response', reports: [] })),
    'degraded on_fallback',
  )
})

const module = (id: BackendId, enabled = true) => ({ enabled, backend_id: id })
const route = (fields: object = {}) => ({
  id: 'edghtsrt_1',
  match: '/',
  backend: module(a),
  ip_restriction: null,
  ...fields,
})
const edge = (fields: Partial<HttpsEdgeFacts> = {}): HttpsEdgeFacts => ({
  id: 'edghts_1',
  hostports: ['shop.example:443'],
  cells: null,
  routes: [route()],
  ...fields,
})

test('a route is as its backend is, and never better than what nodes have of it', () => {
  const cases: [string, object, Partial<EdgeContext>, string][] = [
    ['fine', {}, {}, 'up ok'],
    ['no backend', { backend: null }, {}, 'down no_backend'],
    ['a redirect', { backend: null, redirect: { enabled: true, to: 'https://a.example' } }, {}, 'up ok'],
    [
      'one that is off',
      { backend: null, redirect: { enabled: false, to: 'https://a.example' } },
      {},
      'down no_backend',
    ],
    ['backend disabled', { backend: module(a, false) }, {}, 'down backend_disabled'],
    ['backend that does not exist', { backend: module(b) }, {}, 'down backend_missing'],
    [
      'record refused',
      {},
      fleetOf(node('fra-1', { refused: new Map([['route.edghtsrt_1', 'too long']]) }), node('iad-1')),
      'degraded record_refused',
    ],
    [
      'policy refused',
      { ip_restriction: { enabled: true, ip_policy_ids: ['ipp_1'] } },
      fleetOf(node('fra-1', { refused: new Map([['policy.ipp_1', 'too large']]) }), node('iad-1')),
      'degraded record_refused',
    ],
    [
      'policy of a disabled restriction refused',
      { ip_restriction: { enabled: false, ip_policy_ids: ['ipp_1'] } },
      fleetOf(node('fra-1', { refused: new Map([['policy.ipp_1', 'too large']]) }), node('iad-1')),
      'up ok',
    ],
    [
      'restrictions of the account refused',
      {},
      fleetOf(node('fra-1', { refused: new Map([['restrictions.ac_1', 'no']]) }), node('iad-1')),
      'degraded record_refused',
    ],
  ]
  for (const [name, fields, around, expected] of cases)
    assert.equal(shown(routeStatus(route(fields), context([backend()], around))), expected, name)
})

test('an HTTPS edge is as its routes, its names and the nodes are', () => {
  const broken = route({ id: 'edghtsrt_2', match: '/b', backend: null })
  const lacking = { uncovered: { names: new Set(['shop.example']), isComplete: true } }
  const cases: [string, Partial<HttpsEdgeFacts>, Partial<EdgeContext>, string][] = [
    ['fine', {}, {}, 'up ok'],
    ['no hostports', { hostports: [] }, {}, 'down no_hostports'],
    [
      'no hostport in force',
      { hostports: [], refused_hostports: [{ hostport: 'x:443' }] },
      {},
      'down hostports_refused',
    ],
    ['a hostport not in force', { refused_hostports: [{ hostport: 'x:443' }] }, {}, 'degraded hostports_refused'],
    ['no routes', { routes: [] }, {}, 'down no_routes'],
    ['one route of two down', { routes: [route(), broken] }, {}, 'degraded no_backend'],
    ['all routes down', { routes: [broken] }, {}, 'down no_backend'],
    ['no certificate on one node', {}, fleetOf(node('fra-1', lacking), node('iad-1')), 'degraded certificate_missing'],
    [
      'no certificate on any node',
      {},
      fleetOf(node('fra-1', lacking), node('iad-1', lacking)),
      'down certificate_missing',
    ],
    [
      'no certificate for one name of two',
      { hostports: ['shop.example:443', 'b.example:443'] },
      fleetOf(node('fra-1', lacking), node('iad-1', lacking)),
      'degraded certificate_missing',
    ],
    [
      'a node that does not say',
      {},
      fleetOf(node('fra-1', { uncovered: undefined }), node('iad-1')),
      'unknown certificate_not_reported',
    ],
    [
      'a node whose list is cut',
      {},
      fleetOf(node('fra-1', { uncovered: { names: new Set(), isComplete: false } }), node('iad-1')),
      'unknown certificate_not_reported',
    ],
    [
      'expired certificate',
      {},
      { certificates: new Map([['shop.example', { notAfter: at }]]) },
      'down certificate_expired',
    ],
    ['node away', {}, fleetOf(node('fra-1', { live: false }), node('iad-1')), 'degraded node_away'],
    ['node behind', {}, fleetOf(node('fra-1', { isBehind: true }), node('iad-1')), 'degraded node_behind'],
    [
      'node with a storage fault',
      {},
      fleetOf(node('fra-1', { hasStorageFault: true }), node('iad-1')),
      'degraded storage_fault',
    ],
    [
      'rejected, and not which',
      {},
      fleetOf(node('fra-1', { refusedUnlisted: true }), node('iad-1')),
      'degraded record_refused',
    ],
    [
      'a node away that is in a cell of other edges',
      { cells: ['default'] },
      fleetOf(node('fra-1'), node('iad-1'), node('syd-1', { cell: 'au', live: false })),
      'up ok',
    ],
    ['a cell without nodes', { cells: ['au'] }, {}, 'down no_nodes'],
    ['no route, and NATS is away', { routes: [] }, { fleet: { isConnected: false, nodes: [] } }, 'down no_routes'],
    [
      'NATS is away',
      {},
      { fleet: { isConnected: false, nodes: [node('fra-1', { live: false })] } },
      'unknown control_plane_blind',
    ],
  ]
  for (const [name, fields, around, expected] of cases)
    assert.equal(shown(httpsEdgeStatus(edge(fields), context([backend()], around))), expected, name)
})

test('a TCP edge needs no certificate', () => {
  const tcp = { id: 'edgtcp_1', hostports: ['db.example:20001'], cells: null, backend: module(a), ip_restriction: null }
  const dark = fleetOf(node('fra-1', { uncovered: undefined }), node('iad-1', { uncovered: undefined }))
  assert.equal(shown(tcpEdgeStatus(tcp, context([backend()], dark))), 'up ok')
  assert.equal(shown(tcpEdgeStatus({ ...tcp, backend: null }, context())), 'down no_backend')
  assert.equal(shown(tcpEdgeStatus({ ...tcp, hostports: [] }, context())), 'down no_hostports')
  const port = fleetOf(node('fra-1', { refused: new Map([['tcp.edgtcp_1', 'port 20001 is not served']]) }))
  const found = tcpEdgeStatus(tcp, context([backend({ reports: [report('fra-1')] })], port))
  assert.equal(shown(found), 'down record_refused')
  assert.match(found.reason, /port 20001 is not served\.$/)
})

test('a limit of the cell depends on the number of nodes, and others do not', () => {
  const route = (scope: 'node' | 'cell', enabled = true) => ({
    ...{ id: 'edghtsrt_1', match: '/', backend: { enabled: true, backend_id: a }, ip_restriction: null },
    rate_limit: { enabled, scope },
  })
  const around = context([backend()], { withheld: new Map([['cell_nodes.ac_1', 'not counted yet']]) })
  assert.equal(shown(routeStatus(route('cell'), around)), 'degraded record_withheld')
  assert.equal(shown(routeStatus(route('cell', false), around)), 'up ok')
  assert.equal(shown(routeStatus(route('node'), around)), 'up ok')
})

test('a node is down when it is silent, and unknown when the control plane cannot hear it', () => {
  const fine = {
    live: true,
    lastSeenAt: now,
    applied: 7,
    refusals: [],
    refused: { records: 0, lowest: null, generations: [] },
  }
  const around = { isConnected: true, due: 7, isKeyAccepted: true }
  const cases: [object, object, string][] = [
    [{}, {}, 'up ok'],
    [{ live: false }, {}, 'down node_away'],
    [{ live: false }, { isConnected: false }, 'unknown control_plane_blind'],
    [{ applied: 6 }, {}, 'degraded node_behind'],
    [{ refused: { records: 2, lowest: 1, generations: [1] } }, {}, 'degraded record_refused'],
    [{ refused: undefined }, {}, 'unknown record_refused'],
    [{ storageFault: 'ENOSPC' }, {}, 'degraded storage_fault'],
    [{ differences: { found: 3, since: at, agreedAt: null, latest: [] } }, {}, 'degraded proxy_differs'],
    [{ differences: { found: 3, since: null, agreedAt: at, latest: [] } }, {}, 'up ok'],
    [{ shutLimits: 2 }, {}, 'degraded limits_shut'],
    [{ shutLimits: 0 }, {}, 'up ok'],
    [{}, { isKeyAccepted: false }, 'degraded node_key_waiting'],
    [{ certificates: { names: 1, waiting: 1, firstExpiry: null, missing: 0 } }, {}, 'degraded certificate_missing'],
    [{ certificates: { names: 1, waiting: 0, firstExpiry: null, missing: 3 } }, {}, 'degraded certificate_missing'],
  ]
  for (const [fields, other, expected] of cases)
    assert.equal(
      shown(nodeStatus({ ...fine, ...fields }, { ...around, ...other })),
      expected,
      JSON.stringify([fields, other]),
    )
  assert.equal(
    onNodes(fleetOf(node('fra-1', { live: false }), node('iad-1')).fleet, [], {
      withheld: new Map(),
      rollouts: new Map(),
    }).code,
    'node_away',
  )
})
