import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newId } from '../../../kernel/ids.ts'
import { Claims } from '../maps/claims.ts'
import { type Entry, entriesOf } from '../maps/entries.ts'
import type { ProxySettings } from '../settings.ts'
import { configOf, creation, creationFault } from './commands.ts'
import { type Definition, nativeName } from './definition.ts'
import { changedNative, serverHealth } from './health.ts'
import { NativeModel, nativeEntries } from './model.ts'
import { formatGroup, formatUpstream, parseGroup, parseUpstream } from './upstream.ts'

const settings: ProxySettings = {
  folder: '/edge',
  tcpBind: { addresses: [], first: 1, last: 2 },
  httpsBind: [],
  certificateFolder: '/certificates',
  runtimeSocket: '/runtime',
  masterSocket: '/master',
  threads: 1,
  caFile: '/ca.pem',
  maxconn: 1_000,
}

const check = { type: 'tcp', interval_seconds: 10, healthy_after: 2, unhealthy_after: 3 } as const
const backend = (...addresses: string[]) => ({
  address: addresses[0] ?? null,
  addresses,
  port: 80,
  tls: false,
  host: 'upstream.test',
})
const route = (account: string, id: string) => ({
  account,
  edge: newId('edghts'),
  match_type: 'path_prefix',
  match: '/',
  backend: id,
  policies: null,
  headers: null,
})

/** A model that follows records, and what it said each time. */
function modelOf(more: Partial<ProxySettings> = {}) {
  const claims: Claims = new Claims((entry, isThere) => model.note(entry, isThere))
  const model = new NativeModel({ ...settings, ...more }, claims.holder.bind(claims))
  const current = new Map<string, Entry[]>()
  return {
    model,
    put(records: Record<string, unknown>) {
      const del = Object.keys(records).flatMap((key) => current.get(key) ?? [])
      for (const [key, value] of Object.entries(records)) current.set(key, entriesOf(key, value))
      claims.change({ del, set: Object.keys(records).flatMap((key) => current.get(key) ?? []) })
      return model.takeChanges()
    },
  }
}
const after = (changes: ReturnType<NativeModel['takeChanges']>): Definition[] =>
  changes.flatMap((change) => change.after ?? [])

test('a backend is native while an edge or route uses it, and has a check or several addresses', () => {
  const { put } = modelOf()
  const [account, plain, several, checked] = [newId('ac'), newId('bkdst'), newId('bkdst'), newId('bkdst')]
  assert.deepEqual(
    put({
      [`backend.${plain}`]: backend('10.0.0.1'),
      [`backend.${several}`]: backend('10.0.0.1', '10.0.0.2'),
      [`backend.${checked}`]: { ...backend('10.0.0.1'), health_check: check },
    }),
    [],
    'nothing uses them',
  )
  const routes = [plain, several, checked].map((id) => [`route.${newId('edghtsrt')}`, route(account, id)] as const)
  const created = after(put(Object.fromEntries(routes)))
  assert.deepEqual(new Set(created.map(({ id }) => id)), new Set([several, checked]))
  assert.deepEqual(
    created.map(({ mode, name }) => [mode, nativeName.test(name)]),
    [
      ['http', true],
      ['http', true],
    ],
  )
  const gone = put({ [routes[1]?.[0] ?? '']: null })
  assert.deepEqual(
    gone.map((change) => [change.before?.id, change.after]),
    [[several, undefined]],
  )
})

test('the same servers have the same name, in any order of records; anything else has another one', () => {
  const [account, member, group] = [newId('ac'), newId('bkdst'), newId('bkdwd')]
  const records = {
    [`backend.${member}`]: backend('10.0.0.1'),
    [`weighted.${group}`]: { account, backends: [[member, 5]] },
    [`route.${newId('edghtsrt')}`]: route(account, group),
  }
  const first = modelOf()
  const [one] = after(first.put(records))
  const [two] = after(modelOf().put(Object.fromEntries(Object.entries(records).reverse())))
  assert.equal(one?.name, two?.name)
  assert.deepEqual(first.put(records), [], 'nothing is different')
  const names = new Set([one?.name])
  for (const changed of [
    backend('10.0.0.2'),
    { ...backend('10.0.0.2'), tls: true },
    { ...backend('10.0.0.2'), port: 81 },
  ]) {
    const [next] = after(first.put({ [`backend.${member}`]: changed }))
    names.add(next?.name)
  }
  assert.equal(names.size, 4)
  const [before] = first.put({ [`weighted.${group}`]: null })
  assert.deepEqual(nativeEntries(before ? [before] : []).set, [])
})

test('a weight is shared by the addresses of a member; the smallest is not lost, and 0 is 0', () => {
  const [account, a, b, c, group] = [newId('ac'), newId('bkdst'), newId('bkdst'), newId('bkdst'), newId('bkdwd')]
  const [definition] = after(
    modelOf().put({
      [`backend.${a}`]: backend('10.0.0.1', '10.0.0.2'),
      [`backend.${b}`]: backend('10.0.0.3'),
      [`backend.${c}`]: backend('10.0.0.4'),
      [`weighted.${group}`]: {
        account,
        backends: [
          [a, 10_000],
          [b, 1],
          [c, 0],
        ],
      },
      [`route.${newId('edghtsrt')}`]: route(account, group),
    }),
  )
  assert.deepEqual(
    definition?.servers.map(({ options }) => /^weight (\d+) /.exec(options)?.[1]),
    ['256', '256', '1', '0'],
  )
})

test('each command to HAProxy is a single one, without characters that could end it', () => {
  const [account, id] = [newId('ac'), newId('bkdst')]
  const [definition] = after(
    modelOf().put({
      [`backend.${id}`]: {
        ...backend('10.0.0.1', 'fd00::1'),
        tls: true,
        protocol: 'http2',
        health_check: { ...check, type: 'http', path: '/up?x=1' },
      },
      [`route.${newId('edghtsrt')}`]: route(account, id),
    }),
  )
  assert.ok(definition)
  const isDown = ({ address }: { address: string }) => address === 'fd00::1'
  const commands = [...creation(definition, isDown)]
  assert.equal(commands[0], `add backend ${definition.name} from native_http_least_h2`)
  assert.ok(!commands.some((command) => command.includes('publish')))
  assert.match(
    commands[1] ?? '',
    / \[fd00::1\]:80 ssl verify required ca-file \/ca\.pem sni str\(upstream\.test\) .* init-state down$/,
  )
  assert.match(commands[3] ?? '', / 10\.0\.0\.1:80 .* check healthcheck http inter 10s .* check-proto h2$/)
  for (const text of [...commands, configOf(definition, isDown)]) assert.doesNotMatch(text, /[^\x20-\x7e\n]|["\\$]/)
  assert.equal(creationFault('New backend registered.\n\nNew server registered.\n\n\nBackend published.'), undefined)
  assert.equal(creationFault('New backend registered.\n\nunknown keyword.'), 'unknown keyword.')
})

test('upstreams and groups are read as they were written, and a value of the map `backend` too', () => {
  const upstream = {
    isTls: true,
    isHttp2: true,
    addresses: ['10.0.0.1', 'fd00::1'],
    port: 443,
    host: 'upstream.test',
    sendsProxy: true,
    check,
  }
  assert.deepEqual(parseUpstream(formatUpstream(upstream)), upstream)
  const [entry] = entriesOf(`backend.${newId('bkdst')}`, backend('10.0.0.1'))
  const plain = { ...upstream, isTls: false, isHttp2: false, addresses: ['10.0.0.1'], port: 80, host: '-' }
  assert.deepEqual(parseUpstream(entry?.value ?? ''), { ...plain, sendsProxy: false, check: undefined })
  const group = { kind: 'failover', account: newId('ac'), members: [[newId('bkdst'), 1] as const] } as const
  assert.deepEqual(parseGroup(formatGroup(group)), group)
  assert.deepEqual(parseGroup(formatGroup({ ...group, members: [] })).members, [])
})

test('one account cannot use up the servers of all; the oldest keep theirs, and what goes makes room', () => {
  const perNode = { servers: 3, checksPerSecond: 100 }
  const perAccount = { servers: 2, checksPerSecond: 100 }
  const { model, put } = modelOf({ nativeBudgets: { perNode, perAccount } })
  const [greedy, modest] = [newId('ac'), newId('ac')]
  const ids = Array.from({ length: 4 }, () => newId('bkdst')).sort()
  const users = ids.map(() => `route.${newId('edghtsrt')}`)
  put(Object.fromEntries(ids.map((id) => [`backend.${id}`, { ...backend('10.0.0.1'), health_check: check }])))
  const created = put(
    Object.fromEntries(
      ids.map((id, index) => [users[index], { ...route(index < 3 ? greedy : modest, id), match: `/${id}` }]),
    ),
  )
  assert.deepEqual(
    after(created).map(({ id }) => id),
    [ids[0], ids[1], ids[3]],
  )
  assert.match(model.fault(ids[2] ?? '') ?? '', /more than 2 servers of one account/)
  const freed = put({ [users[0] ?? '']: null })
  assert.deepEqual(
    freed.map((change) => [change.before?.id, change.after?.id]),
    [
      [ids[0], undefined],
      [undefined, ids[2]],
    ],
  )
  assert.equal(model.fault(ids[2] ?? ''), undefined)
})

test('checks per second have a bound of their own', () => {
  const { model, put } = modelOf({ nativeBudgets: { perAccount: { servers: 100, checksPerSecond: 1.5 } } })
  const [account, slow, fast] = [newId('ac'), newId('bkdst'), newId('bkdst')]
  put({
    [`backend.${slow}`]: { ...backend('10.0.0.1', '10.0.0.2'), health_check: check },
    [`backend.${fast}`]: { ...backend('10.0.0.1'), health_check: { ...check, interval_seconds: 1 } },
    [`route.${newId('edghtsrt')}`]: { ...route(account, slow), match: '/slow' },
    [`route.${newId('edghtsrt')}`]: { ...route(account, fast), match: '/fast' },
  })
  assert.equal(model.fault(slow), undefined)
  assert.match(model.fault(fast) ?? '', /more than 1\.5 health checks per second of one account/)
})

test('what HAProxy says about health is read for native backends only, in plain words', () => {
  const name = `${newId('bkdst')}.http.0123456789ab`
  const row = (native: string, ...rest: string[]) => [native, 'server.1', ...rest].join(',')
  const text = [
    '# pxname,svname,status,check_status,check_code,',
    row('https_plain', 'UP', 'L4OK'),
    row(name, 'UP', 'INI'),
    row(name, 'MAINT', 'L4OK'),
    row(name, 'UP 1/3', '* L4OK'),
    row(name, 'DOWN 1/2', 'L7STS', '503'),
    row(name, 'DOWN', 'L4OK'),
  ].join('\n')
  assert.deepEqual(
    serverHealth(text).map(({ isUp, reason }) => [isUp, reason]),
    [
      [true, null],
      [false, 'the health check got status 503'],
      [false, 'connections failed'],
    ],
  )
  assert.equal(changedNative(`Backup Server ${name}/server.1 is DOWN, reason: Layer4 connection problem`), name)
  assert.equal(changedNative('Server https_plain/dyn is DOWN, reason: x'), undefined)
})
