import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { blobName } from '../../distribution/pieces.ts'
import { encodePolicy } from '../../distribution/policy_file.ts'
import type { PolicyRecord } from '../../distribution/records.ts'
import { checkedCidr } from '../../kernel/ip/canonical_cidr.ts'
import { parseCidr } from '../../kernel/ip/cidr.ts'
import { compilePolicy } from '../../kernel/ip/ranges.ts'
import { openPolicyFiles } from './policy_files.ts'

function policyOf(text: string) {
  const { cidr } = parseCidr(text)
  assert.ok(cidr)
  const { hash, bytes, pieces } = encodePolicy(compilePolicy([{ action: 'allow', cidr }]))
  const record: PolicyRecord = { hash, bytes: bytes.length, chunks: pieces.map(blobName) }
  return { record, pieces: new Map(pieces.map((piece) => [blobName(piece), piece])) }
}

test('files unused for two sweeps are deleted, and files in use stay', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-policies-'))
  t.after(() => rm(folder, { recursive: true }))
  const [old, now] = [policyOf('192.0.2.1'), policyOf('2001:db8::1')]
  const pieces = new Map([...old.pieces, ...now.pieces])
  const [files, pieceFolder] = [join(folder, 'policies'), join(folder, 'pieces')]
  const policies = await openPolicyFiles(files, pieceFolder, async (name) => pieces.get(name))
  for (const { record } of [old, now]) await policies.prepare(record)
  const onDisk = async () => [...(await readdir(files)), ...(await readdir(pieceFolder))].sort()
  const all = [old.record, now.record].flatMap(({ hash, chunks }) => [hash, ...(chunks ?? [])])
  assert.deepEqual(await onDisk(), [...new Set(all)].sort())

  assert.equal(await policies.sweep([now.record]), 0)
  assert.deepEqual(await onDisk(), [...new Set(all)].sort())
  // Used again in between, so the count restarts.
  await policies.sweep([old.record, now.record])
  assert.equal(await policies.sweep([now.record]), 0)
  await policies.sweep([now.record])
  assert.deepEqual(await onDisk(), [now.record.hash, ...(now.record.chunks ?? [])].sort())
  await policies.prepare(old.record)
  assert.ok((await onDisk()).includes(old.record.hash))
})

test('a policy that differs from what was signed is refused and leaves nothing behind', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-policies-'))
  t.after(() => rm(folder, { recursive: true }))
  const [wanted, other] = [policyOf('192.0.2.1'), policyOf('192.0.2.2')]
  const files = join(folder, 'policies')
  // They share the piece with the counts, so that one is always right.
  const fetch = async (name: string) => other.pieces.get(name) ?? Buffer.from('something else')
  const policies = await openPolicyFiles(files, join(folder, 'pieces'), fetch)
  const inline = Buffer.concat([...other.pieces.values()]).toString('base64')
  for (const [record, reason] of [
    [{ ...wanted.record, chunks: other.record.chunks }, /do not match its signature/],
    [{ hash: wanted.record.hash, bytes: wanted.record.bytes, inline }, /do not match its signature/],
    [wanted.record, /do not match its name/],
  ] as const)
    await assert.rejects(policies.prepare(record), reason)
  assert.deepEqual(await readdir(files), [])
})

/** Every other /24, in several pieces. */
function largePolicy(changed: string) {
  const cidrs = Array.from(
    { length: 20_000 },
    (_, index) => `${1 + (index >> 14)}.${(index >> 6) & 255}.${(index & 63) * 2}.0/24`,
  )
  const rules = [...cidrs, changed].map((text) => ({ action: 'allow' as const, cidr: checkedCidr(text) }))
  const { hash, bytes, pieces } = encodePolicy(compilePolicy(rules))
  const record: PolicyRecord = { hash, bytes: bytes.length, chunks: pieces.map(blobName) }
  return { record, bytes, pieces: new Map(pieces.map((piece) => [blobName(piece), piece])) }
}

test('a changed policy is made from its earlier file and the pieces that are new, even if that file is damaged', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-policies-'))
  t.after(() => rm(folder, { recursive: true }))
  const versions = [1, 2, 3, 4].map((index) => largePolicy(`200.0.${index}.0/24`))
  const [first, second, third, fourth] = versions as [Large, Large, Large, Large]
  const pieces = new Map(versions.flatMap((version) => [...version.pieces]))
  assert.ok(first.pieces.size > 4)
  const [files, pieceFolder] = [join(folder, 'policies'), join(folder, 'pieces')]
  const policies = await openPolicyFiles(files, pieceFolder, async (name) => pieces.get(name))
  const written = (version: Large) => readFile(join(files, version.record.hash))

  await policies.prepare(first.record)
  // Without the pieces on disk, only the earlier file can have provided them.
  for (const name of await readdir(pieceFolder)) await rm(join(pieceFolder, name))
  const isNew = (name: string) => !first.pieces.has(name)
  await policies.prepare(second.record, first.record)
  assert.deepEqual(await written(second), second.bytes)
  assert.deepEqual((await readdir(pieceFolder)).sort(), [...second.pieces.keys()].filter(isNew).sort())

  const damaged = await written(second)
  damaged[damaged.length >> 1] = (damaged[damaged.length >> 1] ?? 0) ^ 1
  await writeFile(join(files, second.record.hash), damaged)
  await policies.prepare(third.record, second.record)
  assert.deepEqual(await written(third), third.bytes, 'the earlier file was damaged')

  await rm(join(files, third.record.hash))
  await policies.prepare(fourth.record, third.record)
  assert.deepEqual(await written(fourth), fourth.bytes, 'the earlier file was gone')
})
type Large = ReturnType<typeof largePolicy>
