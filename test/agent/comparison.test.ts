// What another program changes in HAProxy is found, named and repaired, and what the agent itself changes never is.
import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fingerprintOf } from '../../src/agent/haproxy/comparison/certificate_comparison.ts'
import type { Difference } from '../../src/agent/haproxy/comparison/difference.ts'
import { Claims } from '../../src/agent/haproxy/maps/claims.ts'
import { type Entry, type MapName, mapNames } from '../../src/agent/haproxy/maps/entries.ts'
import { bringUpToDate } from '../../src/agent/haproxy/maps/map_changes.ts'
import { ask, converse, type MapRuntime, mapRuntime } from '../../src/agent/haproxy/process/runtime.ts'
import { tenantFolder, tenantList } from '../../src/agent/haproxy/settings.ts'
import { newCertificate } from '../harness/certificates.ts'
import { poll } from '../harness/poll.ts'
import { randomBelow } from '../harness/random.ts'
import { sized } from '../harness/thorough.ts'
import { get, putHttpsEdge, startHttpUpstream } from './http_harness.ts'
import { nativesOf, staticBackend, tcpCheck } from './native_harness.ts'
import { id, startEdge } from './proxy_harness.ts'

const found: Difference[] = []
let agreements = 0
const edge = await startEdge(
  { after },
  {
    certificates: ['app.example.com'],
    options: {
      onDifferences: (differences) => found.push(...differences),
      onAgreement: () => agreements++,
      comparisonMs: 20,
      // The files stay as they were at the last reload of the agent's own.
      flushMs: 3_600_000,
    },
  },
)
const { settings } = edge
const [account, backend] = [id('ac'), id('bkdst')]
const { port } = await startHttpUpstream({ after }, 'upstream')
await edge.put({ [`backend.${backend}`]: { address: '127.0.0.1', port, tls: false, host: 'upstream.test' } })
const https = await putHttpsEdge(edge)
const routeRecord = (match: string, policies: string[] | null = null) => ({
  ...{ account, edge: https, match_type: 'path_prefix', match, backend, policies, headers: null },
})
const routes = Array.from({ length: 300 }, (_, index) => ({ key: id('edghtsrt'), match: `/r${index}` }))
await edge.put(Object.fromEntries(routes.map(({ key, match }) => [`route.${key}`, routeRecord(match)])))

const mapFile = (map: MapName) => join(settings.folder, `maps/${map}.map`)
async function tell(...commands: string[]): Promise<void> {
  for await (const _ of converse(settings.runtimeSocket, commands));
}
const routeKey = (index: number) => `${https}/r${index}/`
/** Everything has been compared since this call, and nothing differed. */
async function agreement(): Promise<void> {
  const before = agreements
  // The one that runs now may have passed the place already.
  await poll(() => agreements >= before + 2)
}
const names = (differences: readonly Difference[]) =>
  differences.map(({ what, name, kind }) => `${kind} ${what} ${name}`).sort()

test('entries that another program changed, removed or added are named and repaired', async () => {
  await agreement()
  const policy = await edge.policy('deny 0.0.0.0/0')
  await edge.put({ [`route.${routes[3]?.key}`]: routeRecord('/r3', [policy]) })
  assert.equal((await get(edge, { path: '/r3' })).status, 403)
  await agreement()
  found.length = 0
  const file = mapFile('route')
  const [open] = (await ask(settings.runtimeSocket, `get map ${file} ${routeKey(1)}`)).match(/edghtsrt_[^"]+/) ?? []
  await tell(
    `set map ${file} ${routeKey(3)} ${open}`,
    `del map ${file} ${routeKey(5)}`,
    `del map ${file} ${routeKey(6)}`,
    `add map ${file} ${https}/secret/ ${open}`,
    `set map ${mapFile('host')} app.example.com edghts_nobody`,
    `del map ${mapFile('node')} ready`,
  )
  await poll(() => found.length >= 6)
  await agreement()
  assert.deepEqual(
    names(found),
    [
      `changed route ${routeKey(3)}`,
      `missing route ${routeKey(5)}`,
      `missing route ${routeKey(6)}`,
      `unexpected route ${https}/secret/`,
      'changed host app.example.com',
      'missing node ready',
    ].sort(),
  )
  assert.deepEqual(
    await Promise.all(['/r3', '/r5', '/secret'].map(async (path) => (await get(edge, { path })).status)),
    [403, 200, 404],
  )
})

test('an agent that starts takes no entry for in force that HAProxy has not kept', async () => {
  const runtime = mapRuntime(settings)
  const entries: Entry[] = []
  for (const map of mapNames) for await (const [key, value] of runtime.entries(map)) entries.push({ map, key, value })
  const claims = new Claims()
  claims.replace(entries)
  await bringUpToDate(runtime, claims)
  const [lost] = claims.change({ set: [{ map: 'route', key: `${https}/lost/`, value: 'lost' }], del: [] })
  const losing: MapRuntime = {
    ...runtime,
    change: (commands, places) =>
      runtime.change(
        [...commands].filter(({ key }) => key !== lost?.key),
        places,
      ),
  }
  await assert.rejects(bringUpToDate(losing, claims), /another entry for .*\/lost\/ in the map route/)
})

test('a look-up finds exactly what is in a map, and nothing that only begins like it', async () => {
  const odd = ['/a b', '/semi;colon', '/"quoted", value="x"', '/café', '/100%25']
  const headers = { add: [['x-text', 'a;b "c" \\d']], remove: ['x-gone'] }
  await edge.put(
    Object.fromEntries(odd.map((match) => [`route.${id('edghtsrt')}`, { ...routeRecord(match), headers }])),
  )
  const runtime = mapRuntime(settings)
  for (const map of mapNames) {
    const entries = await Array.fromAsync(runtime.entries(map))
    assert.equal(await runtime.size(map), entries.length, map)
    const places = entries.map(([key]) => ({ map, key }))
    assert.deepEqual(
      await runtime.lookUp(places),
      entries.map(([, value]) => value),
      map,
    )
    const longer = places.map(({ key }) => ({ map, key: `${key}x/` }))
    assert.deepEqual(
      await runtime.lookUp(longer),
      longer.map(() => undefined),
      map,
    )
  }
})

test('nothing seems to differ while the agent itself changes entries all the time', async () => {
  await agreement()
  found.length = 0
  const before = agreements
  const changes = sized(300, 10_000)
  for (let index = 0; index < changes; index++) {
    const { key, match } = routes[randomBelow(routes.length)] ?? assert.fail()
    const isGone = randomBelow(4) === 0
    await edge.put({ [`route.${key}`]: isGone ? null : routeRecord(randomBelow(2) === 0 ? match : `${match}/x`) })
  }
  await agreement()
  assert.deepEqual(names(found), [])
  assert.ok(agreements > before)
})

test('a key that another program added twice is found, and HAProxy is reloaded', async () => {
  await agreement()
  found.length = 0
  await tell(`add map ${mapFile('host')} app.example.com edghts_other`)
  await poll(() => found.length > 0)
  await agreement()
  assert.deepEqual(names(found), ['unexpected host app.example.com'])
  const shown = await ask(settings.runtimeSocket, `show map ${mapFile('host')}`)
  assert.equal(shown.split('\n').length, 1)
})

test('a reload by hand, with files that lack the latest changes, is noticed', async () => {
  const { key } = routes[0] ?? assert.fail()
  await agreement()
  found.length = 0
  await edge.put({ [`route.${key}`]: routeRecord('/after-the-files') })
  await ask(settings.masterSocket, 'reload').catch(() => '')
  await poll(() => found.length > 0)
  await agreement()
  assert.ok(names(found).includes(`missing route ${https}/after-the-files/`), names(found).join())
  assert.equal((await get(edge, { path: '/after-the-files' })).status, 200)
})

test('a server that another program disabled or moved is put back', async () => {
  const { port } = await startHttpUpstream({ after }, 'native')
  const native = id('bkdst')
  await edge.put({ [`backend.${native}`]: staticBackend([{ address: '127.0.0.1', port }], { health_check: tcpCheck }) })
  await edge.put({ [`route.${id('edghtsrt')}`]: { ...routeRecord('/native'), backend: native } })
  const [, name] = (await ask(settings.runtimeSocket, 'show servers state')).match(/ (bkdst_\S+) /) ?? assert.fail()
  for (const tampering of [
    `disable server ${name}/${native}.1`,
    `set server ${name}/${native}.1 addr 127.0.0.2`,
    `set server ${name}/${native}.1 addr 127.0.0.1 port 1`,
  ]) {
    await agreement()
    found.length = 0
    await tell(tampering)
    await poll(() => found.length > 0)
    await agreement()
    assert.deepEqual(names(found), [`changed native backend ${name}`], tampering)
    assert.deepEqual(Object.values(await nativesOf(edge)), [[`127.0.0.1:${port}`]])
    await poll(async () => (await get(edge, { path: '/native' })).status === 200)
  }
})

test('a certificate that another program replaced, removed or added is put back', async () => {
  const [own, other] = [newCertificate(['tenant.example']), newCertificate(['tenant.example'])]
  const pem = own.certificate_pem + own.private_key_pem
  await edge.proxy.names.serve({ set: [{ name: 'tenant.example', certificate: id('cert'), except: [], pem }], del: [] })
  const [file = ''] = (await readdir(tenantFolder(settings))).map((each) => join(tenantFolder(settings), each))
  const added = join(tenantFolder(settings), 'added.pem')
  const withoutEmptyLines = (text: string) => text.replaceAll(/\n+/g, '\n')
  const load = (path: string) => [
    `set ssl cert ${path} <<\n${withoutEmptyLines(other.certificate_pem + other.private_key_pem)}`,
    `commit ssl cert ${path}`,
  ]
  for (const [tampering, difference] of [
    [load(file), `changed certificate ${file}`],
    [[`del ssl crt-list ${tenantList(settings)} ${file}`], 'missing certificate tenant.example'],
    [[`new ssl cert ${added}`, ...load(added)], `unexpected certificate ${added}`],
  ] as const) {
    await agreement()
    found.length = 0
    await tell(...tampering)
    await poll(() => found.length > 0)
    await agreement()
    assert.ok(names(found).includes(difference), names(found).join())
    const shown = await ask(settings.runtimeSocket, `show ssl cert ${file}`)
    assert.match(shown, new RegExp(`FingerPrint: ${fingerprintOf(own.certificate_pem)}`))
    assert.match(shown, /Status: Used/)
  }
})
