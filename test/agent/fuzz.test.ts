import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:http2'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { UnusableRecord } from '../../src/agent/haproxy/maps/codec.ts'
import { type Entry, entriesOf } from '../../src/agent/haproxy/maps/entries.ts'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { hasEncodedSlash } from '../../src/kernel/edge/paths.ts'
import { canonicalPath } from '../../src/kernel/edge/route_keys.ts'
import { printed, sized } from '../harness/thorough.ts'
import { startHttpUpstream } from './http_harness.ts'
import { id, startEdge } from './proxy_harness.ts'

const nasty = fc.constantFrom(
  '\n',
  '\r\n',
  '\0',
  ' ',
  '\t',
  '#',
  '-',
  '--',
  ';',
  '|',
  '\\',
  '"',
  "'",
  '%',
  '%0a',
  '%00',
  '<<',
  '+',
  '!',
  '?',
  '&',
  '=',
  ',',
  '@1',
  '*',
  '..',
  '/../',
  '//',
  'é',
  '\u2028',
  '\ud800',
  '😀',
  '$HOME',
  '%[src]',
  '{',
  '}',
  'del map',
  '\x7f',
)
const hostile = fc
  .array(fc.oneof(nasty, fc.string({ maxLength: 8 }), fc.string({ unit: 'binary', maxLength: 4 })), { maxLength: 6 })
  .map((parts) => parts.join(''))
const printable = fc
  .array(fc.integer({ min: 0x21, max: 0x7e }), { minLength: 1, maxLength: 30 })
  .map((codes) => String.fromCharCode(...codes))
const token = fc
  .array(fc.constantFrom(..."!#$%&'*+-.^_`|~0129azAZ"), { minLength: 1, maxLength: 12 })
  .map((all) => `x${all.join('')}`)

test('tenant input is refused or encoded: every entry is one line of two words and names only its owner', () => {
  const oneLine = ({ key, value }: Entry) => {
    assert.match(key, /^[\x21-\x7e]+$/)
    assert.match(key, /^[a-z0-9*.]|^::/)
    assert.match(value, /^[\x20-\x7e]+$/)
    assert.doesNotMatch(value, /[\\;"]/)
  }
  const attempt = (key: string, value: unknown): Entry[] => {
    try {
      return entriesOf(key, value)
    } catch (error) {
      assert.ok(error instanceof UnusableRecord, String(error))
      return []
    }
  }
  const route = { account: id('ac'), edge: id('edghts'), backend: id('bkdst'), policies: null, headers: null }
  fc.assert(
    fc.property(hostile, hostile, (a, b) => {
      const tcp = { account: id('ac'), backend: null, policies: null }
      for (const hostports of [[a], [`${a}:80`], [`${a}.example.com:443`], [`[${a}]:1`]]) {
        attempt(`tcp.${id('edgtcp')}`, { ...tcp, hostports }).forEach(oneLine)
        attempt(`https.${id('edghts')}`, { hostports }).forEach(oneLine)
      }
      for (const match_type of ['exact_path', 'path_prefix', a]) {
        for (const entry of attempt(`route.${id('edghtsrt')}`, { ...route, match_type, match: `/${a}` })) {
          oneLine(entry)
          assert.ok(entry.key.startsWith(`${route.edge}/`))
        }
      }
      for (const headers of [
        { add: [[a, b]], remove: [] },
        { add: [['x', b]], remove: [a] },
        { add: [[a, 'v']], remove: [a, b] },
      ]) {
        attempt(`route.${id('edghtsrt')}`, { ...route, match_type: 'exact_path', match: '/', headers }).forEach(oneLine)
      }
      for (const host of [a, `${a}.test`])
        attempt(`backend.${id('bkdst')}`, { address: '10.0.0.1', port: 1, tls: true, host }).forEach(oneLine)
      for (const [key, value] of [
        [`tcp.${a}`, tcp],
        [a, {}],
        [`policy.${id('ipp')}`, a],
        [`backend.${id('bkdst')}`, { address: a, port: 1, tls: false, host: 'x' }],
        [`restrictions.${id('ac')}`, { sets: [{ id: a, enforced: true, policies: [b] }] }],
        [`route.${id('edghtsrt')}`, a],
      ] as const)
        attempt(key, value).forEach(oneLine)
    }),
    { numRuns: sized(500, 2_000) },
  )
})

const hostileRoutes = sized(1_000, 10_000)
test(`${printed(hostileRoutes)} hostile routes in HAProxy affect no other account`, async (t) => {
  const edge = await startEdge(t, { certificates: ['*.example.com'] })
  const upstream = await startHttpUpstream(t)
  const backend = id('bkdst')
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port: upstream.port, tls: false, host: 'upstream.test' },
  })
  const match = hostile.filter((text) => !hasEncodedSlash(text))
  const samples = fc.sample(fc.record({ match, name: token, value: printable }), { numRuns: hostileRoutes, seed: 7 })
  const records: Record<string, unknown> = {}
  const wanted: { host: string; path: string; name: string; value: string }[] = []
  for (const [index, { match, name, value }] of samples.entries()) {
    const [https, route] = [id('edghts'), id('edghtsrt')]
    records[`https.${https}`] = { hostports: [`h${index}.example.com:443`] }
    records[`route.${route}`] = {
      account: id('ac'),
      edge: https,
      match_type: index % 2 ? 'exact_path' : 'path_prefix',
      match: `/${match}`,
      backend,
      policies: null,
      headers: { add: [[name, value]], remove: [] },
    }
    wanted.push({ host: `h${index}.example.com`, path: canonicalPath(`/${match}`), name, value })
  }
  // Some one by one, over the commands for few; the rest at once.
  const keys = Object.keys(records)
  for (const key of keys.slice(0, 400)) await edge.put({ [key]: records[key] })
  await edge.put(Object.fromEntries(keys.slice(400).map((key) => [key, records[key]])))
  assert.deepEqual(edge.troubles, [])

  const inForce = new Map<string, string>()
  const compared = ['host', 'route', 'headers', 'header_lists']
  for (const map of compared) {
    const shown = await ask(edge.settings.runtimeSocket, `show map ${join(edge.settings.folder, `maps/${map}.map`)}`)
    for (const line of shown.split('\n').filter(Boolean)) {
      const [, key = '', value = ''] = /^0x[0-9a-f]+ (\S+) (.*)$/.exec(line) ?? []
      inForce.set(`${map} ${key}`, value)
    }
  }
  const expected = edge.all().filter(({ map }) => compared.includes(map))
  assert.equal(inForce.size, expected.length)
  for (const { map, key, value } of expected) assert.equal(inForce.get(`${map} ${key}`), value, key)

  // A connection serves one edge. Enough of them to cover every pair of awkward characters.
  for (const { host, path, name, value } of wanted.filter((_, index) => index % 10 === 0)) {
    const session = connect(`https://127.0.0.1:${edge.httpsPort}`, { rejectUnauthorized: false, servername: host })
    const request = session.request({ ':path': path, ':authority': host, [name]: 'forged' })
    const [headers] = await once(request, 'response')
    request.resume()
    assert.equal(headers[':status'], 200, path)
    const mine = upstream.lastHeaders().filter(([each]) => each === name.toLowerCase())
    assert.deepEqual(mine, [[name.toLowerCase(), value]])
    session.destroy()
  }

  for (const key of keys.slice(0, 200)) await edge.put({ [key]: null })
  await edge.put(Object.fromEntries(keys.slice(200).map((key) => [key, null])))
  const left = await ask(edge.settings.runtimeSocket, `show map ${join(edge.settings.folder, 'maps/route.map')}`)
  assert.equal(left, '')
  assert.deepEqual(edge.troubles, [])
})
