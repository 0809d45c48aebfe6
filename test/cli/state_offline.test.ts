// What `gatehouse state` finds in a file without a service, and what other tools read in the files that it writes.
// cspell:ignore htp
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parse } from 'yaml'
import { exits } from '../../src/cli/exits.ts'
import { toThing, withNames } from '../../src/cli/state/account.ts'
import { kindNames } from '../../src/cli/state/kinds.ts'
import { readState } from '../../src/cli/state/read.ts'
import { writeState } from '../../src/cli/state/write.ts'
import { gatehouse } from '../harness/command.ts'
import { stateFile } from './state_harness.ts'

const faulty = `gatehouse: 1
ip_policies:
  office:
    rules:
      - allow 10.0.0.0/33
      - allow 10.0.0.1/8
      - allow 10.0.0.0/8
      - {deny: 10.0.0.0/8, expires_at: tomorrow}
backends:
  app: {address: nowhere, protocol: htp2, health_check: {interval_seconds: 0}}
ip_restrictions:
  api: {type: apis, ip_policies: []}
https_edges:
  one: {hostports: [a.example:443, b.example:80], routes: [{match_type: prefix, match: x}]}
  two:
    hostports: [A.example:443]
    routes: [{match: /, match_type: exact_path}, {match: /, match_type: exact_path}]
`
const wanted: [line: number, place: string, fault: RegExp][] = [
  [5, 'ip_policies.office.rules[0]', /prefix length from 0 to 32/],
  [6, 'ip_policies.office.rules[1]', /did you mean 10\.0\.0\.0\/8/],
  [8, 'ip_policies.office.rules[3]', /repeats the range 10\.0\.0\.0\/8/],
  [8, 'ip_policies.office.rules[3].expires_at', /RFC 3339/],
  [10, 'backends.app.address', /must be host:port/],
  [10, 'backends.app.protocol', /did you mean http2/],
  [10, 'backends.app.health_check', /needs type/],
  [10, 'backends.app.health_check.interval_seconds', /must be >= 1/],
  [12, 'ip_restrictions.api.type', /must be one of dashboard, api, agent, endpoints; did you mean api/],
  [12, 'ip_restrictions.api.ip_policies', /at least 1 entry/],
  [14, 'https_edges.one.hostports[1]', /must use port 443/],
  [14, 'https_edges.one.routes[0].match_type', /must be one of exact_path, path_prefix/],
  [14, 'https_edges.one.routes[0].match', /begins with '\/'/],
  [16, 'https_edges.two.hostports[0]', /repeats the hostport a\.example:443/],
  [17, 'https_edges.two.routes[1]', /repeats the match exact_path \//],
]

test('what the service would refuse is found before it is asked, each fault with its line', async () => {
  const file = await stateFile(faulty)
  for (const verb of ['diff', 'apply', 'sync']) {
    const { code, stdout, stderr } = await gatehouse(['state', verb, file])
    assert.deepEqual([code, stdout], [exits.refused.code, ''], stderr)
    const told = stderr.trimEnd().split('\n').slice(1)
    assert.equal(told.length, wanted.length, stderr)
    for (const [index, [line, place, fault]] of wanted.entries()) {
      assert.match(told[index] ?? '', new RegExp(`^  line ${line}, column \\d+: `))
      assert.equal(told[index]?.split(': ')[1], place)
      assert.match(told[index] ?? '', fault)
    }
  }
})

// Each is a text for YAML 1.2, and something else for YAML 1.1, which many tools read.
const odd = [
  'yes',
  'No',
  'on',
  'OFF',
  'y',
  'n',
  '017',
  '0b1',
  '1_000',
  '12:30:45',
  '0x1F',
  '~',
  'null',
  '1e3',
  '.inf',
  '=',
]

test('tools that read YAML 1.1 see the same texts in a dump', () => {
  const rows = odd.map((text, index) => ({ id: `ipp_${index}`, description: text, metadata: text }))
  const things = withNames(rows.map((row) => ({ ...toThing('ip_policies', row), rules: [] })))
  const text = writeState(things, { withIds: false, sections: kindNames, comment: [] })
  for (const version of ['1.1', '1.2'] as const) {
    const read = Object.entries(parse(text, { version }).ip_policies as Record<string, { description: string }>)
    assert.deepEqual(
      read.map(([, { description }]) => description),
      odd,
      version,
    )
  }
  assert.deepEqual(
    readState(text).sections.ip_policies?.map(({ fields }) => fields.description),
    odd,
  )
})

test('the colon of a description does not end up in a name', () => {
  const policy = toThing('ip_policies', { id: 'ipp_1', description: 'Example: everyone but 10.0.0.0/8' })
  const edge = toThing('tcp_edges', { id: 'edgtcp_1', hostports: ['db.example:20001'] })
  assert.deepEqual(
    withNames([policy, edge]).map(({ name }) => name),
    ['example-everyone-but-10.0.0.0-8', 'db.example:20001'],
  )
})
