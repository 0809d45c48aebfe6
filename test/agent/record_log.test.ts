import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { crc32 } from 'node:zlib'
import { openRecordLog, type Position } from '../../src/agent/disk/record_log.ts'
import type { EdgeRecord, RecordKey } from '../../src/distribution/records.ts'
import { newId } from '../../src/kernel/ids.ts'
import { faultyFiles } from '../harness/faulty_files.ts'

async function newFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-log-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  return folder
}
const at = (applied: number): Position => ({
  applied,
  revision: applied * 10,
  bucket: 'made on Sunday',
  complete: true,
})
const backend = (key: RecordKey, generation: number, port: number | null): EdgeRecord => ({
  key,
  generation,
  value: port === null ? null : { host: 'ä.example', port, tls: false },
})
async function load(folder: string) {
  const log = await openRecordLog(folder)
  await log.close()
  return { records: [...log.records.values()], position: log.position() }
}

test('a node killed mid-write starts with the previous state, wherever the write stopped', async (t) => {
  const folder = await newFolder(t)
  const one: RecordKey = `backend.${newId('bkdst')}`
  const two: RecordKey = `backend.${newId('bkdst')}`
  const log = await openRecordLog(folder)
  await log.append([backend(one, 1, 80)], at(1))
  await log.append([backend(two, 2, 81)], at(2))
  const file = join(folder, 'records.log')
  const before = (await stat(file)).size
  await log.append([backend(one, 3, null)], at(3))
  await log.close()
  const whole = await readFile(file)
  const old = { records: [backend(one, 1, 80), backend(two, 2, 81)], position: at(2) }
  for (let length = before; length < whole.length; length++) {
    await writeFile(file, whole.subarray(0, length))
    assert.deepEqual(await load(folder), old, `cut at ${length} of ${whole.length}`)
  }
  await writeFile(file, whole)
  assert.deepEqual(await load(folder), { records: [backend(one, 3, null), backend(two, 2, 81)], position: at(3) })
})

test('everything after a damaged line is discarded, and the next write repairs the file', async (t) => {
  const folder = await newFolder(t)
  const keys: RecordKey[] = Array.from({ length: 3 }, () => `backend.${newId('bkdst')}` as const)
  const log = await openRecordLog(folder)
  for (const [index, key] of keys.entries()) await log.append([backend(key, index + 1, 80)], at(index + 1))
  await log.close()
  const file = join(folder, 'records.log')
  const lines = (await readFile(file, 'utf8')).split('\n')
  // The first line is what the log was opened with: nothing.
  await writeFile(file, lines.with(2, (lines[2] as string).replace(':80', ':81')).join('\n'))
  const again = await openRecordLog(folder)
  assert.deepEqual([...again.records.values()], [backend(keys[0] as RecordKey, 1, 80)])
  await again.append([backend(keys[2] as RecordKey, 9, 90)], at(9))
  await again.close()
  assert.deepEqual(await load(folder), {
    records: [backend(keys[0] as RecordKey, 1, 80), backend(keys[2] as RecordKey, 9, 90)],
    position: at(9),
  })
})

test('a rewritten log keeps every record, every tombstone and its position', async (t) => {
  const folder = await newFolder(t)
  const keys: RecordKey[] = Array.from({ length: 2_500 }, () => `backend.${newId('bkdst')}` as const)
  const log = await openRecordLog(folder)
  const file = join(folder, 'records.log')
  const expected = new Map<RecordKey, EdgeRecord>()
  const sizes: number[] = []
  let generation = 0
  for (let round = 0; round < 8; round++) {
    const changed = keys.map((key, index) => backend(key, ++generation, (index + round) % 5 === 0 ? null : 80 + round))
    for (const record of changed) expected.set(record.key, record)
    await log.append(changed, at(generation))
    if (log.isLong()) await log.compact()
    sizes.push((await stat(file)).size)
  }
  await log.close()
  assert.ok(
    sizes.some((size, index) => index > 0 && size < (sizes[index - 1] as number)),
    `never shorter: ${sizes}`,
  )
  // Opening does not rewrite it: the second reads what the first left.
  await load(folder)
  const loaded = await load(folder)
  assert.deepEqual(new Map(loaded.records.map((record) => [record.key, record])), expected)
  assert.ok(loaded.records.some(({ value }) => value === null))
  assert.deepEqual(loaded.position, at(generation))
})

test('opening leaves a log as it is, and one that is mostly superseded can be shortened', async (t) => {
  const folder = await newFolder(t)
  const file = join(folder, 'records.log')
  const key: RecordKey = `backend.${newId('bkdst')}`
  const log = await openRecordLog(folder)
  let generation = 0
  const change = () => log.append([backend(key, ++generation, 80)], at(generation))
  for (let count = 0; count < 1_500; count++) await change()
  await log.close()
  const before = await readFile(file)
  await load(folder)
  assert.deepEqual(await readFile(file), before)
  // Enough superseded lines that it is long.
  const line = before.subarray(before.lastIndexOf(10, -2) + 1)
  await writeFile(file, Buffer.concat([before, ...Array.from({ length: 3_000 }, () => line)]))
  const long = await openRecordLog(folder)
  assert.ok(long.isLong())
  await long.compact()
  await long.close()
  assert.deepEqual(await load(folder), { records: [backend(key, generation, 80)], position: at(generation) })
  assert.ok((await stat(file)).size < 1_000)
})

test('row 3: a partly written batch is discarded as a whole, however many of its lines are intact', async (t) => {
  const folder = await newFolder(t)
  const file = join(folder, 'records.log')
  const keys: RecordKey[] = Array.from({ length: 2_500 }, () => `backend.${newId('bkdst')}` as const)
  const log = await openRecordLog(folder)
  await log.append([backend(keys[0] as RecordKey, 1, 80)], at(1))
  const before = (await readFile(file, 'utf8')).split('\n').length
  const batch = keys.map((key, index) => backend(key, 2 + index, 81))
  await log.append(batch, at(9))
  await log.close()
  const lines = (await readFile(file, 'utf8')).split('\n')
  assert.equal(lines.length, before + 3)
  for (let kept = before; kept < lines.length - 1; kept++) {
    await writeFile(file, `${lines.slice(0, kept - 1).join('\n')}\n`)
    assert.deepEqual(await load(folder), { records: [backend(keys[0] as RecordKey, 1, 80)], position: at(1) })
  }
})

test('row 3: a log damaged in its first batch is not served from', async (t) => {
  const folder = await newFolder(t)
  const file = join(folder, 'records.log')
  const keys: RecordKey[] = Array.from({ length: 1_500 }, () => `backend.${newId('bkdst')}` as const)
  const log = await openRecordLog(folder)
  await log.append(
    keys.map((key) => backend(key, 1, 80)),
    at(1),
  )
  await log.close()
  // The first line is what the log was opened with: nothing. The batch has two, and the second is damaged.
  const [nothing, first, second = ''] = (await readFile(file, 'utf8')).split('\n')
  await writeFile(file, [nothing, first, second.replace(':80', ':81'), ''].join('\n'))
  const { records, position } = await load(folder)
  assert.deepEqual([records, position], [[], { applied: 0, revision: 0, bucket: '', complete: false }])
})

test('state from an older version is served, and read again from NATS', async (t) => {
  const folder = await newFolder(t)
  const record = backend(`backend.${newId('bkdst')}`, 5, 80)
  const old = (applied: number) =>
    JSON.stringify({ records: [record], applied, revision: 50, bucket: 'made on Sunday' })
  for (const [applied, complete] of [
    [5, true],
    [0, false],
  ] as const) {
    const line = old(applied)
    await writeFile(join(folder, 'records.log'), `${crc32(line).toString(16).padStart(8, '0')} ${line}\n`)
    const position = { applied, revision: 0, bucket: '', complete }
    assert.deepEqual(await load(folder), { records: complete ? [record] : [], position })
  }
})

test('whichever operation of the disk fails once, the log on disk is what was last acknowledged, and then goes on', async (t) => {
  const key: RecordKey = `backend.${newId('bkdst')}`
  for (let failing = 0, isOver = false; !isOver; failing++) {
    const folder = await newFolder(t)
    const disk = faultyFiles()
    const log = await openRecordLog(folder, disk.files)
    let generation = 0
    let left = failing
    let failures = 0
    disk.failWhen(() => left-- === 0)
    for (const step of ['append', 'append', 'compact', 'append', 'compact', 'append'] as const) {
      const next = generation + 1
      const work = () => (step === 'append' ? log.append([backend(key, next, 80)], at(next)) : log.compact())
      try {
        await work()
      } catch {
        failures++
        // What was written and could not be synced may be there all the same.
        const { applied } = (await load(folder)).position
        assert.ok(applied === generation || (step === 'append' && applied === next), `${applied} after ${step}`)
        const kept: EdgeRecord[] = applied === 0 ? [] : [backend(key, applied, 80)]
        assert.deepEqual((await load(folder)).records, kept, `after operation ${failing} has failed`)
        await work()
      }
      if (step === 'append') generation = next
      const { records, position } = await load(folder)
      assert.deepEqual([records, position], [[backend(key, generation, 80)], at(generation)], `operation ${failing}`)
    }
    await log.close()
    isOver = failures === 0
  }
})
