import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { faultyFiles } from '../../test/harness/faulty_files.ts'
import { blobName } from '../distribution/pieces.ts'
import { encodePolicy, type PolicyFile, wholeFile } from '../distribution/policy_file.ts'
import type { EdgeRecord, PolicyRecord, RecordKey } from '../distribution/records.ts'
import { encodeRules } from '../distribution/rule_file.ts'
import { cutRuleList, ruleListLayout } from '../distribution/rule_list.ts'
import { newId, newUuid } from '../kernel/ids.ts'
import { checkedCidr } from '../kernel/ip/canonical_cidr.ts'
import { formatCidr } from '../kernel/ip/cidr.ts'
import { compilePolicy, type DatedRule } from '../kernel/ip/ranges.ts'
import type { Log } from '../kernel/log.ts'
import { openPolicyFiles } from './disk/policy_files.ts'
import { createExpiries } from './expiry.ts'
import { createPreparation } from './preparation.ts'
import { createRefusals } from './refusals.ts'
import { openDns } from './upstreams/dns.ts'
import { createUpstreamPolicy } from './upstreams/policy.ts'
import { openResolver } from './upstreams/resolver.ts'
import { createUpstreams } from './upstreams/upstreams.ts'

const accountId = newUuid()
const key: RecordKey = `policy.${newId('ipp')}`
const noon = Date.parse('2026-01-01T12:00:00Z')

const permanent: DatedRule = { cidr: checkedCidr('10.0.0.0/8'), action: 'allow' }
const guest: DatedRule = { cidr: checkedCidr('192.0.2.1/32'), action: 'allow', expiresAt: noon }
const ban: DatedRule = { cidr: checkedCidr('10.0.0.1/32'), action: 'deny', expiresAt: noon }

/** Everything as the control plane sends it, with the files in pieces. */
function policyOf(...rules: DatedRule[]) {
  const inOrder = rules.toSorted((a, b) => formatCidr(a.cidr).localeCompare(formatCidr(b.cidr)))
  const ruleIds = Buffer.concat(inOrder.map(({ cidr }) => Buffer.alloc(16, formatCidr(cidr))))
  const ranges = compilePolicy(inOrder)
  const decisions = encodePolicy(ranges)
  const named = encodeRules(accountId, ranges, ruleIds)
  const list = wholeFile(cutRuleList({ rules: inOrder, ruleIds }), ruleListLayout(accountId))
  const inPieces = ({ hash, bytes, pieces }: PolicyFile): PolicyRecord => ({
    hash,
    bytes: bytes.length,
    chunks: pieces.map(blobName),
  })
  const record: EdgeRecord = {
    key,
    generation: 1,
    value: inPieces(decisions),
    rules: inPieces(named),
    expiring: { at: noon, list: inPieces(list) },
  }
  return {
    record,
    list,
    pieces: [decisions, named, list].flatMap(({ pieces }) => pieces),
    files: [decisions.hash, named.hash],
  }
}

async function newNode(t: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-expiry-'))
  t.after(() => rm(folder, { recursive: true }))
  const said: string[] = []
  const note = (level: string) => (_: object, text: string) => void said.push(`${level}: ${text}`)
  const log = { info: note('info'), warn: note('warn'), error: note('error') } as unknown as Log
  const disk = faultyFiles()
  const pieces = new Map<string, Buffer>()
  const policies = join(folder, 'policies')
  const policyFiles = await openPolicyFiles(
    policies,
    join(folder, 'pieces'),
    async (name) => pieces.get(name),
    disk.files,
  )
  const time = { now: noon - 1_000 }
  const expiries = createExpiries({ log, policyFiles, clock: () => time.now })
  const send = (...sent: readonly Buffer[]) => {
    for (const piece of sent) pieces.set(blobName(piece), piece)
  }
  return { policies, said, log, disk, pieces, policyFiles, time, expiries, send }
}

test('a policy is as it was sent until a rule expires, and without that rule from then on', async (t) => {
  const { time, expiries, send, said } = await newNode(t)
  const { record, pieces } = policyOf(permanent, guest, ban)
  send(...pieces)
  await expiries.prepare(record)
  assert.deepEqual([expiries.filesOf(key), expiries.due()], [undefined, []])
  time.now = noon
  assert.deepEqual(expiries.due(), [key])
  await expiries.prepare(record)
  assert.deepEqual([expiries.filesOf(key), expiries.due()], [policyOf(permanent).files, []])
  assert.deepEqual(said, ['info: rules of a policy have expired; enforcing it without them'])
  await expiries.prepare({ key, generation: 2, value: null })
  assert.deepEqual([expiries.filesOf(key), expiries.files()], [undefined, []])
})

test('while a piece of its rules is missing, a policy is as sent before the moment and refuses everyone after it', async (t) => {
  const { time, expiries, send, said } = await newNode(t)
  const levels = () => said.map((line) => line.slice(0, line.indexOf(':')))
  const { record, pieces, list } = policyOf(permanent, guest)
  send(...pieces.filter((piece) => !list.pieces.includes(piece)))
  await expiries.prepare(record)
  assert.deepEqual([expiries.filesOf(key), expiries.due()], [undefined, [key]], 'tried again all the time')
  time.now = noon
  await expiries.prepare(record)
  await expiries.prepare(record)
  assert.deepEqual([expiries.filesOf(key), expiries.due()], [null, [key]])
  assert.deepEqual(levels(), ['warn', 'error'], 'each said once')
  send(...list.pieces)
  await expiries.prepare(record)
  assert.deepEqual(expiries.filesOf(key), policyOf(permanent).files)
  assert.equal(levels().at(-1), 'info')
})

for (const [what, rule, expected] of [
  ['a denial that has expired stays', ban, undefined],
  ['a policy whose allow rule has expired refuses everyone', guest, null],
] as const)
  test(`on a full disk, ${what}`, async (t) => {
    const { time, expiries, send, disk } = await newNode(t)
    const { record, pieces } = policyOf(permanent, rule)
    send(...pieces)
    await expiries.prepare(record)
    time.now = noon
    disk.failWhen(({ kind }) => kind === 'write')
    await expiries.prepare(record)
    assert.deepEqual([expiries.filesOf(key), expiries.due()], [expected, [key]])
    disk.heal()
    await expiries.prepare(record)
    assert.deepEqual(expiries.filesOf(key), policyOf(permanent).files)
  })

test('a damaged list of rules is made again from its pieces', async (t) => {
  const { time, expiries, send, policies } = await newNode(t)
  const { record, pieces, list } = policyOf(permanent, guest)
  send(...pieces)
  await expiries.prepare(record)
  await writeFile(join(policies, list.hash), Buffer.alloc(list.bytes.length, 1))
  time.now = noon
  await expiries.prepare(record)
  assert.equal(expiries.filesOf(key), null)
  await expiries.prepare(record)
  assert.deepEqual(expiries.filesOf(key), policyOf(permanent).files)
})

test('rules of the policy in force expire while a newer version of it waits for its file, and files in use are kept', async (t) => {
  const { time, send, log, disk, policyFiles, policies } = await newNode(t)
  const none = compilePolicy([])
  const upstreams = createUpstreams(
    await openResolver({
      files: disk.files,
      file: join(policies, '..', 'addresses.json'),
      dns: await openDns({ servers: [] }),
      onChange: () => {},
      onError: assert.fail,
    }),
    createUpstreamPolicy({ deny: none, allow: none, ownPorts: [], ownAddresses: () => [] }),
  )
  const known = new Map<RecordKey, EdgeRecord>()
  const clock = () => time.now
  const refusals = createRefusals({ log, clock, logged: new Map(), onChange: () => {} })
  const preparation = createPreparation({ log, known, policyFiles, upstreams, clock }, refusals)
  const valuesOf = async (record: EdgeRecord) => [...(await preparation.prepare([record]))].map(({ value }) => value)
  const { record, pieces, files } = policyOf(permanent, guest)
  send(...pieces)
  assert.deepEqual(await valuesOf(record), [files.join('.')])
  known.set(key, record)

  const newer = { ...policyOf(permanent, guest, ban).record, generation: 2 }
  assert.deepEqual(await valuesOf(newer), [], 'the one before stays')
  time.now = noon
  assert.deepEqual(preparation.expired(), [key])
  assert.deepEqual(await valuesOf(newer), [policyOf(permanent).files.join('.')])
  assert.deepEqual([preparation.expired(), [...preparation.unfinished.values()]], [[], [newer]])
  for (let sweep = 0; sweep < 3; sweep++) await preparation.sweep()
  const kept = new Set(await readdir(policies))
  for (const file of policyOf(permanent).files) assert.ok(kept.has(file), 'made here and in use')
})
