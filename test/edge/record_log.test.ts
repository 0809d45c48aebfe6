import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { EdgeRecord, RecordKey } from '../../src/distribution/records.ts'
import { openRecordLog, type Position } from '../../src/edge/record_log.ts'
import { newId } from '../../src/kernel/ids.ts'

async function newFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-log-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  return folder
}
const at = (applied: number): Position => ({ applied, revision: applied * 10, bucket: 'made on Sunday' })
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

test('a node that was killed in mid-write starts with the state before, wherever the write stopped', async (t) => {
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

test('what stands after a damaged line is not believed, and the next write makes the file whole again', async (t) => {
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

test('a log that is written anew keeps every record, every tombstone and its place', async (t) => {
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
    sizes.push((await stat(file)).size)
  }
  await log.close()
  assert.ok(
    sizes.some((size, index) => index > 0 && size < (sizes[index - 1] as number)),
    `never shorter: ${sizes}`,
  )
  // Opening writes it anew as well: what that wrote is read by the second.
  await load(folder)
  const loaded = await load(folder)
  assert.deepEqual(new Map(loaded.records.map((record) => [record.key, record])), expected)
  assert.ok(loaded.records.some(({ value }) => value === null))
  assert.deepEqual(loaded.position, at(generation))
})
