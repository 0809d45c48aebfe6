import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isEdgeRequest } from '../../../distribution/requests.ts'
import { newId, toUuid } from '../../../kernel/ids.ts'
import { type LineContext, readLine } from './read_line.ts'
import { commonFields, requestFields } from './request_lines.ts'

const context: LineContext = { node: 'edge-1', edition: 'e1', rules: new Map([[7, 'no_route']]), generationAt: () => 3 }
const [account, route, backend, edge] = [newId('ac'), newId('edghtsrt'), newId('bkdst'), newId('edghts')]
const values: Record<string, string> = {
  ...{ kind: 'H', edition: 'e1', process: '12', sequence: '5', id: '0198c0de-0000-7000-8000-000000000000' },
  ...{ at: '1794778926861', source: '192.0.2.1', duration: '3', bytesIn: '10', bytesOut: '20', state: '--', rule: '-' },
  ...{
    address: '2001:db8::1',
    port: '443',
    decision: '-',
    over: '-',
    fault: '-',
    entry: `${route}|${account}|${backend}`,
  },
  ...{ edge, status: '200', major: '2', version: 'HTTP/1.1', method: 'GET', trace: '-', host: 'a.example', path: '/x' },
}
const lineOf = (changes: Record<string, string> = {}) =>
  [...commonFields, ...requestFields].map((name) => ({ ...values, ...changes })[name]).join('\t')
const read = (changes?: Record<string, string>) => readLine(lineOf(changes), context)?.request

test('a line becomes a request', () => {
  assert.deepEqual(
    [read()?.upstream, read()?.protocol, read()?.route, read()?.account, read()?.at],
    ['[2001:db8::1]:443', 'h2', route, account, '2026-11-15T21:42:06.861Z'],
  )
})

test('by how it ended, and by which rule', () => {
  const outcome = (changes: Record<string, string>) => `${read(changes)?.outcome} ${read(changes)?.reason}`
  const cases: [Record<string, string>, string][] = [
    [{ state: 'LR', rule: '7', status: '404' }, 'failed no_route'],
    [{ state: 'LR', rule: '8', status: '404' }, 'allowed null'],
    [{ state: 'LR', rule: '8', status: '404', edition: 'e0' }, 'failed no_route'],
    [{ state: 'SC', status: '503' }, 'failed connect_failed'],
    [{ state: 'SC', status: '503', fault: 'SSL_HANDSHAKE|x|' }, 'failed tls_failed'],
    [{ state: 'sC', status: '503' }, 'failed connect_timeout'],
    [{ state: 'SH', status: '502' }, 'failed no_response'],
    [{ state: 'sH', status: '504' }, 'failed response_timeout'],
    [{ state: 'PH', status: '502' }, 'failed response_invalid'],
    [{ state: 'SD' }, 'failed response_cut'],
    [{ state: 'CD' }, 'allowed null'],
    [{ state: 'CH', status: '-1' }, 'failed client_closed'],
    [{ state: 'cR', status: '408' }, 'failed client_timeout'],
    [{ over: 'edge', state: 'LR', status: '503' }, 'limited edge'],
    [{ decision: `shut !-:${newId('ipp')}`, state: 'LR', status: '403' }, 'refused policy'],
    [{ decision: `shut !${newId('ipx')}:-`, state: 'LR', status: '403' }, 'refused restriction'],
    [{ decision: 'shut', state: 'LR', status: '403' }, 'refused policy'],
    [{ decision: `open ?${newId('ipx')}:-` }, 'warned null'],
  ]
  for (const [changes, expected] of cases) assert.equal(outcome(changes), expected, JSON.stringify(changes))
})

test('who decided is named with the rule, in the words of all policies or of the only one', () => {
  const [restriction, policy, rule] = [newId('ipx'), newId('ipp'), newId('ipr')]
  const hex = toUuid(rule).replaceAll('-', '')
  const entry = `${route}|${account}|${backend}|-|-|-|0001|-|-|${policy}`
  const by = (changes: Record<string, string>) => {
    const told = read({ entry, ...changes })
    return [told?.outcome, told?.restriction, told?.policy, told?.rule]
  }
  assert.deepEqual(by({ decision: `open +${hex}` }), ['allowed', null, policy, rule])
  assert.deepEqual(by({ decision: 'open' }), ['allowed', null, null, null])
  const refused = { state: 'LR', status: '403' }
  assert.deepEqual(by({ decision: `open +${restriction}:${policy}:${hex}` }), ['allowed', restriction, policy, rule])
  assert.deepEqual(by({ ...refused, decision: `shut !-:${policy}:-` }), ['refused', null, policy, null])
  assert.deepEqual(by({ ...refused, decision: `shut !${restriction}:${policy}:${hex} ?${newId('ipx')}:-:-` }), [
    ...['refused', restriction, policy, rule],
  ])
  assert.deepEqual(by({ decision: `open +-:${newId('ipp')}:${hex} ?${restriction}:${policy}:${hex}` }), [
    ...['warned', restriction, policy, rule],
  ])
  assert.deepEqual(by({ decision: `open +${hex}`, state: 'SC', status: '503' }), ['failed', null, null, null])
})

test('a line is read as one request or as none, even with hostile values in fields that the client controls', () => {
  const bytes = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code)).filter((each) => each !== '\t')
  const texts = [
    ...bytes,
    bytes.join(''),
    '#',
    '#0',
    '#00#0A#09',
    '#22#5C',
    '-',
    '',
    'x'.repeat(9_000),
    '#FF'.repeat(3_000),
  ]
  for (const name of ['method', 'host', 'path', 'trace', 'version'])
    for (const text of texts) {
      const line = readLine(lineOf({ [name]: text }), context)
      assert.ok(line && isEdgeRequest(line.request), `${name} ${JSON.stringify(text).slice(0, 40)}`)
      assert.deepEqual(
        [line.request.account, line.request.outcome, line.request.source],
        [account, 'allowed', '192.0.2.1'],
      )
    }
})

test('anything else is not a request', () => {
  for (const text of [
    '',
    'Server a/b is DOWN.',
    lineOf({ path: 'a\tb' }),
    lineOf({ source: 'x' }),
    lineOf({ id: '-' }),
  ])
    assert.equal(readLine(text, context), undefined)
  assert.equal(readLine(lineOf().split('\t').slice(0, -1).join('\t'), context), undefined)
})
