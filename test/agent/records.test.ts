import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { encodePolicy, headerBytes, policyFileFault } from '../../src/distribution/policy_file.ts'
import type { EdgeRecord } from '../../src/distribution/records.ts'
import { createSigner, newSigningKey, open, openRecord, seal, trustedKeys } from '../../src/distribution/signature.ts'
import { recordFault } from '../../src/distribution/validate.ts'
import { newId } from '../../src/kernel/ids.ts'
import { type Address, parseAddress } from '../../src/kernel/ip/address.ts'
import { parseCidr } from '../../src/kernel/ip/cidr.ts'
import { decide } from '../../src/kernel/ip/decide.ts'
import { type Action, compilePolicy, type Rule } from '../../src/kernel/ip/ranges.ts'
import { sized } from '../harness/thorough.ts'

const ours = newSigningKey()
const foreign = newSigningKey()
const signer = createSigner(ours.publicKey, ours.privateKey)
const foreigner = createSigner(foreign.publicKey, foreign.privateKey)
/** An attacker without our key who writes its id under what they signed with their own. */
const impostor = { keyId: signer.keyId, sign: foreigner.sign }
const trusted = trustedKeys([ours.publicKey])

const rule = (action: Action, range: string): Rule => {
  const { cidr, fault } = parseCidr(range)
  if (!cidr) throw new Error(`${range} ${fault}`)
  return { action, cidr }
}
const small = encodePolicy(compilePolicy([rule('allow', '10.0.0.0/8'), rule('deny', '10.1.0.0/16')]))
const account = newId('ac')
const httpCheck = {
  type: 'http' as const,
  path: '/healthz',
  interval_seconds: 10,
  healthy_after: 2,
  unhealthy_after: 3,
}
const records: EdgeRecord[] = [
  {
    key: `tcp.${newId('edgtcp')}`,
    generation: 7,
    value: { account, hostports: ['a.example:20000'], backend: newId('bkdst'), policies: [newId('ipp')] },
  },
  { key: `https.${newId('edghts')}`, generation: 8, value: { hostports: ['*.example.com:443'] } },
  {
    key: `route.${newId('edghtsrt')}`,
    generation: 9,
    value: {
      account,
      edge: newId('edghts'),
      match_type: 'path_prefix',
      match: '/api',
      backend: null,
      policies: null,
      headers: { add: [['X-A', 'b']], remove: ['X-C'] },
    },
  },
  { key: `backend.${newId('bkdst')}`, generation: 10, value: { host: 'app.internal', port: 80, tls: false } },
  {
    key: `policy.${newId('ipp')}`,
    generation: 11,
    value: { hash: small.hash, bytes: small.bytes.length, inline: small.bytes.toString('base64') },
  },
  {
    key: `restrictions.${account}`,
    generation: 12,
    value: { sets: [{ id: newId('ipx'), enforced: true, policies: [newId('ipp')] }] },
  },
  { key: `tcp.${newId('edgtcp')}`, generation: 13, value: null },
  {
    key: `backend.${newId('bkdst')}`,
    generation: 14,
    value: { host: 'app.internal', port: 80, tls: false, health_check: httpCheck },
  },
  {
    key: `weighted.${newId('bkdwd')}`,
    generation: 15,
    value: {
      account,
      backends: [
        [newId('bkdst'), 10],
        [newId('bkdst'), 0],
      ],
    },
  },
  {
    key: `failover.${newId('bkdfo')}`,
    generation: 16,
    value: { account, backends: [newId('bkdst'), newId('bkdst')], response: newId('bkdhr') },
  },
  {
    key: `response.${newId('bkdhr')}`,
    generation: 17,
    value: { status: 503, headers: [['Retry-After', '60']], body: 'Back at noon' },
  },
]

type Edit = { at: number; kind: 'flip' | 'cut' | 'insert' | 'double'; byte: number }
const edits = fc.array(
  fc.record({
    at: fc.nat(),
    kind: fc.constantFrom<Edit['kind']>('flip', 'cut', 'insert', 'double'),
    byte: fc.integer({ min: 1, max: 255 }),
  }),
  { minLength: 1, maxLength: 4 },
)
function edited(bytes: Buffer, changes: readonly Edit[]): Buffer {
  let now = Buffer.from(bytes)
  for (const { at, kind, byte } of changes) {
    const place = now.length ? at % now.length : 0
    if (kind === 'cut') now = now.subarray(0, place)
    else if (kind === 'flip' && now.length) now[place] = (now[place] as number) ^ byte
    else if (kind === 'insert') now = Buffer.concat([now.subarray(0, place), Buffer.of(byte), now.subarray(place)])
    else if (kind === 'double') now = Buffer.concat([now, now.subarray(place)])
  }
  return now
}

test('a signed record is accepted only under its own key', () => {
  for (const record of records) {
    assert.deepEqual(openRecord(seal(record, signer), trusted, record.key), record)
    const elsewhere = openRecord(seal(record, signer), trusted, records.find(({ key }) => key !== record.key)?.key)
    assert.match((elsewhere as { fault: string }).fault, /stands under the key of another record/)
  }
})

test('damaged, truncated and rewritten records: none is accepted with altered content', () => {
  const signed = new Map(records.map((record) => [record.key, JSON.stringify(record)]))
  let refused = 0
  const runs = sized(500, 2_000)
  fc.assert(
    fc.property(fc.constantFrom(...records), edits, (record, changes) => {
      const damaged = edited(Buffer.from(seal(record, signer)), changes).toString('utf8')
      const opened = openRecord(damaged, trusted)
      if ('fault' in opened) {
        assert.equal(typeof opened.fault, 'string')
        refused++
      } else assert.equal(JSON.stringify(opened), signed.get(opened.key))
    }),
    { numRuns: runs },
  )
  // Base64 has room for changes that mean the same; nearly everything else is damage.
  assert.ok(refused > 0.9 * runs, `only ${refused} of ${runs} were refused`)
})

test('a signature by an untrusted key is refused, under its own name or under ours', () => {
  for (const record of records) {
    for (const [by, why] of [
      [foreigner, /not trusted here/],
      [impostor, /wrong signature/],
    ] as const) {
      const opened = openRecord(seal(record, by), trusted)
      assert.match((opened as { fault: string }).fault, why)
    }
  }
})

test('a signature of one record does not carry over to another, nor to another generation of it', () => {
  fc.assert(
    fc.property(fc.constantFrom(...records), fc.constantFrom(...records), fc.nat(1_000), (one, other, later) => {
      const { signature, key } = JSON.parse(seal(one, signer))
      const claimed = JSON.stringify({ ...other, generation: other.generation + later + 1 })
      const opened = openRecord(JSON.stringify({ payload: claimed, key, signature }), trusted)
      assert.deepEqual(opened, { fault: 'has a wrong signature' })
    }),
    { numRuns: 200 },
  )
})

test('anything else in place of an envelope is refused without throwing', () => {
  const nothing = ['', ' ', 'null', '0', '""', '[]', '{}', '{"payload":{}}', '{"payload":"","key":"","signature":""}']
  for (const text of nothing) assert.ok('fault' in openRecord(text, trusted), text)
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.json()), (text) =>
      assert.ok('fault' in open(text, trusted)),
    ),
    { numRuns: sized(250, 1_000) },
  )
})

test('a bug in the control plane stops at the edge: a signed value of the wrong shape is refused', () => {
  const paths = (value: unknown, path: (string | number)[] = []): (string | number)[][] =>
    value !== null && typeof value === 'object'
      ? [path, ...Object.entries(value).flatMap(([name, inner]) => paths(inner, [...path, name]))]
      : [path]
  const wrong = [undefined, 0, -1, 1.5, '', 'x y', '\n', {}, [], [[]], true, '../../etc/passwd', '__proto__', 'é']
  for (const record of records.filter(({ value }) => value !== null)) {
    for (const path of paths(record).filter(({ length }) => length > 0)) {
      for (const bad of wrong) {
        const copy = structuredClone(record) as unknown as Record<string, unknown>
        const parent = path.slice(0, -1).reduce((at, name) => at[name] as Record<string, unknown>, copy)
        const name = path.at(-1) as string
        if (JSON.stringify(parent[name]) === JSON.stringify(bad)) continue
        parent[name] = bad
        const fault = recordFault(copy)
        // A value that the API could have produced differs in meaning, not in shape.
        if (fault === undefined) assert.ok(isPlausible(path, bad), `${JSON.stringify(copy)} was accepted`)
      }
    }
  }
  for (const value of [null, undefined, 1, 'x', [], {}, { key: 'constructor.x' }, { key: '__proto__.x' }])
    assert.equal(typeof recordFault(value), 'string')
})
const isPlausible = (path: (string | number)[], bad: unknown): boolean =>
  (['enforced', 'tls'].includes(path.at(-1) as string) && typeof bad === 'boolean') ||
  (['hostports', 'sets', 'add', 'remove', 'headers'].includes(path.at(-1) as string) &&
    Array.isArray(bad) &&
    bad.length === 0) ||
  // A failover group needs a server or a response.
  (path.at(-1) === 'response' && bad === undefined) ||
  (path[1] === 'backends' && path.length === 2 && Array.isArray(bad) && bad.length === 0) ||
  (path[1] === 'backends' && path[3] === '1' && bad === 0) ||
  (path.at(-1) === 'health_check' && bad === undefined) ||
  (path.at(-1) === 'body' && typeof bad === 'string') ||
  // Any token is the name of a header, and most texts are a value.
  (path.includes('headers') && bad === '__proto__') ||
  ((path.includes('add') || path[1] === 'headers') && path.at(-1) === '1' && typeof bad === 'string') ||
  (path.at(-1) === 'inline' && bad === '')

test('a node accepts exactly what the API accepts', () => {
  const many = <T>(count: number, item: T): T[] => Array.from({ length: count }, () => item)
  const [tcp, https, route, backend, policy, restrictions] = records as [EdgeRecord, ...EdgeRecord[]]
  const set = { id: newId('ipx'), enforced: true, policies: [newId('ipp')] }
  const hash64 = 'a'.repeat(64)
  const limits: [record: EdgeRecord | undefined, field: string, most: unknown, more: unknown][] = [
    [tcp, 'hostports', many(100, 'a.example:1'), many(101, 'a.example:1')],
    [tcp, 'hostports', ['a.example:65535'], ['a.example:65536']],
    [tcp, 'hostports', ['a.example:1'], ['A.example:1']],
    [tcp, 'hostports', ['a.example:1'], ['*.example:1']],
    [https, 'hostports', many(100, '*.a.example:443'), many(101, '*.a.example:443')],
    [tcp, 'policies', many(100, newId('ipp')), many(101, newId('ipp'))],
    [tcp, 'policies', [newId('ipp')], []],
    [route, 'match', `/${'a'.repeat(1023)}`, `/${'a'.repeat(1024)}`],
    [route, 'headers', { add: [], remove: [] }, { add: [], remove: [], replace: [] }],
    [route, 'headers', { add: [['a', '']], remove: [] }, { add: [...many(2, ['a', ''])], remove: [] }],
    [route, 'headers', { add: [['a', '']], remove: [] }, { add: [['a', '', '']], remove: [] }],
    [route, 'headers', { add: [['host', 'b']], remove: [] }, { add: [], remove: ['host'] }],
    [route, 'encoded_slashes', 'allow', 'reject'],
    [route, 'path_variants', 'ignore', 'restrict'],
    [route, 'websocket', false, true],
    [backend, 'port', 65_535, 65_536],
    [backend, 'port', 1, 0],
    [backend, 'host', '[::1]', '::1'],
    [backend, 'protocol', 'http2', 'http1'],
    [backend, 'send_proxy_protocol', true, false],
    [policy, 'bytes', 64 * 1024 * 1024, 64 * 1024 * 1024 + 1],
    [policy, 'inline', 'a'.repeat(128 * 1024), 'a'.repeat(128 * 1024 + 1)],
    [policy, 'hash', hash64, `${hash64}\n`],
    [restrictions, 'sets', many(1_000, set), many(1_001, set)],
  ]
  for (const [record, field, most, more] of limits) {
    const withField = (value: unknown) => ({ ...record, value: { ...record?.value, [field]: value } })
    assert.equal(recordFault(withField(most)), undefined, field)
    assert.equal(recordFault(withField(more)), `has an invalid ${field}`)
  }
  const pieces = (chunks: unknown) => recordFault({ ...policy, value: { hash: hash64, bytes: 12, chunks } })
  assert.equal(pieces(many(10_000, hash64)), undefined)
  assert.equal(pieces(many(10_001, hash64)), 'has an invalid chunks')
})

test('a refused record says what is wrong with it', () => {
  const [tcp, , , , policy] = records as [EdgeRecord, ...EdgeRecord[]]
  const { hostports: _, ...rest } = tcp.value as { hostports: string[] }
  assert.equal(recordFault({ ...tcp, value: rest }), 'has no hostports')
  assert.equal(recordFault({ ...tcp, value: { ...tcp.value, color: 1 } }), 'has an unknown field "color"')
  assert.equal(recordFault({ ...tcp, value: JSON.parse('{"__proto__":{}}') }), 'has an unknown field "__proto__"')
  assert.equal(recordFault({ ...tcp, generation: 0 }), 'has no generation')
  assert.equal(recordFault({ ...tcp, value: [] }), 'has no value')
  assert.match(recordFault({ ...tcp, key: 'tcp.x' }) ?? '', /^has an unknown key "tcp.x"/)
  const both = { ...policy?.value, chunks: ['a'.repeat(64)] }
  assert.equal(recordFault({ ...policy, value: both }), 'has not exactly one of inline and chunks')
})

test('a damaged policy file is refused or still well-formed', () => {
  const { bytes } = encodePolicy(
    compilePolicy([rule('allow', '10.0.0.0/8'), rule('deny', '10.2.0.0/16'), rule('allow', '2001:db8::/32')]),
  )
  assert.equal(policyFileFault(bytes), undefined)
  assert.equal(typeof policyFileFault(Buffer.alloc(0)), 'string')
  for (let length = 0; length < bytes.length; length++)
    assert.equal(typeof policyFileFault(bytes.subarray(0, length)), 'string')
  fc.assert(
    fc.property(edits, (changes) => {
      const damaged = edited(bytes, changes)
      if (policyFileFault(damaged) !== undefined) return
      // It can be searched; that it is the one that was signed is for its hash to say.
      assert.equal(damaged.length, headerBytes + 5 * damaged.readUInt32BE(4) + 17 * damaged.readUInt32BE(8))
      for (const ip of ['0.0.0.0', '10.2.0.1', '255.255.255.255', '::', '2001:db8::1'])
        assert.ok([0, 1, 2].includes(verdictOf(damaged, parseAddress(ip) as Address)))
    }),
    { numRuns: sized(500, 2_000) },
  )
})

/** As gatehouse.lua searches it: the last range that starts at or below the address. */
function verdictOf(bytes: Buffer, address: Address): number {
  const isV4 = address.family === 4
  const size = isV4 ? 5 : 17
  const first = isV4 ? headerBytes : headerBytes + 5 * bytes.readUInt32BE(4)
  const count = bytes.readUInt32BE(isV4 ? 4 : 8)
  const wanted = Buffer.alloc(size - 1)
  if (isV4) wanted.writeUInt32BE(address.value)
  else
    for (const [word, value] of [address.w0, address.w1, address.w2, address.w3].entries())
      wanted.writeUInt32BE(value, 4 * word)
  let verdict = 0
  for (let at = first; at < first + count * size; at += size) {
    if (bytes.compare(wanted, 0, size - 1, at, at + size - 1) > 0) break
    verdict = bytes[at + size - 1] as number
  }
  return verdict
}

test('the file that the edge searches decides as the control plane does, on generated policies', () => {
  // Few different bits, so that ranges nest, touch and repeat.
  const octet = fc.constantFrom(0, 1, 127, 128, 255)
  const v4 = fc.tuple(octet, octet, fc.integer({ min: 0, max: 32 })).map(([a, b, length]) => {
    const value = ((a << 24) | (b << 16)) >>> 0
    const network = length === 0 ? 0 : (value & (0xffffffff << (32 - length))) >>> 0
    return `${[24, 16, 8, 0].map((shift) => (network >>> shift) & 255).join('.')}/${length}`
  })
  const v6 = fc.constantFrom(
    '::/0',
    '2001:db8::/32',
    '2001:db8::/33',
    '2001:db8:8000::/33',
    '2001:db8::1/128',
    'fe80::/10',
    'ffff::/16',
  )
  const rules = fc.array(fc.tuple(fc.constantFrom<Action>('allow', 'deny'), fc.oneof(v4, v6)), { maxLength: 12 })
  const address = fc.oneof(
    fc.tuple(octet, octet, octet, octet).map((octets) => octets.join('.')),
    fc.constantFrom('::', '2001:db8::', '2001:db8::1', '2001:db8:8000::', '2001:db9::', 'fe80::1', 'ffff::ffff'),
  )
  fc.assert(
    fc.property(rules, fc.array(address, { minLength: 4, maxLength: 12 }), (lines, addresses) => {
      const compiled = compilePolicy(lines.map(([action, range]) => rule(action, range)))
      const { bytes, pieces, hash: name } = encodePolicy(compiled)
      assert.equal(policyFileFault(bytes), undefined)
      assert.deepEqual(Buffer.concat(pieces), bytes)
      assert.equal(hash('sha256', bytes, 'hex'), name)
      for (const ip of addresses) {
        const parsed = parseAddress(ip) as Address
        assert.equal(verdictOf(bytes, parsed) === 1, decide([compiled], parsed).allowed, `${ip} by ${lines}`)
      }
    }),
    { numRuns: sized(250, 1_000) },
  )
})

test('in a policy of 100,000 ranges, adding, removing or changing one rule changes one or two pieces', () => {
  // Every other /24, so that no two ranges become one.
  const range = (index: number) => `${1 + (index >> 15)}.${(index >> 7) & 255}.${(index & 127) * 2}.0/24`
  const rules = Array.from({ length: 100_000 }, (_, index) => rule('allow', range(index)))
  const before = encodePolicy(compilePolicy(rules))
  assert.ok(before.pieces.length > 20, `${before.pieces.length} pieces`)
  assert.deepEqual(Buffer.concat(before.pieces), before.bytes)
  const names = new Set(before.pieces.map((piece) => hash('sha256', piece, 'hex')))
  const changes = {
    more: [...rules, rule('allow', '200.1.2.0/24')],
    less: rules.filter((_, index) => index !== 50_000),
    other: rules.with(12_345, rule('allow', range(12_345).replace('.0/24', '.128/25'))),
    first: rules.with(0, rule('deny', range(0))),
  }
  for (const [change, changed] of Object.entries(changes)) {
    const after = encodePolicy(compilePolicy(changed))
    // Without the header, whose twelve bytes hold the counts.
    const fresh = after.pieces.slice(1).filter((piece) => !names.has(hash('sha256', piece, 'hex')))
    assert.ok(fresh.length === 1 || fresh.length === 2, `${change}: ${fresh.length} pieces`)
    assert.deepEqual(Buffer.concat(after.pieces), after.bytes)
  }
})
