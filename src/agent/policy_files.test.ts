import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { encodePolicy } from '../distribution/policy_file.ts'
import type { PolicyRecord } from '../distribution/records.ts'
import { parseCidr } from '../kernel/ip/cidr.ts'
import { compilePolicy } from '../kernel/ip/ranges.ts'
import { blobName } from '../publisher/compile.ts'
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
