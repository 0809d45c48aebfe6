import { mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'
import { type EdgeRecord, kindOf, type RecordKey, type RouteRecord } from '../distribution/records.ts'
import { writeAtomically } from './atomic_file.ts'
import { linesOf, type Position, readLines, recordsPerLine } from './record_lines.ts'

export type { Position } from './record_lines.ts'

/**
 * What the node knows, on its own disk: it starts from here when everything else is down. One or more lines for each
 * batch, with a checksum: reading ends at a line that a power cut left half-written, and a batch without its last line
 * does not count. So it holds consistent states only, and NATS has the rest.
 */
export type RecordLog = {
  readonly records: Map<RecordKey, EdgeRecord>
  /** Where to go on in the bucket. */
  position: () => Position
  /** On disk when it resolves. */
  append: (records: readonly EdgeRecord[], position: Position) => Promise<void>
  close: () => Promise<void>
}

/** The log is rewritten when it is this many times longer than its contents. */
const compactAt = 4

export async function openRecordLog(folder: string): Promise<RecordLog> {
  await mkdir(folder, { recursive: true })
  const file = join(folder, 'records.log')
  const { records, position: read, written: found, end } = await readLog(file)
  let position = read
  let written = found
  let handle = await openWhole()
  let torn = false

  /** What stands behind the last whole batch would hide whatever is appended. */
  async function openWhole() {
    if (end === undefined || isDue()) return rewrite()
    const opened = await open(file, 'a')
    await opened.truncate(end)
    return opened
  }

  /** Much of it is superseded. */
  function isDue(): boolean {
    return written >= compactAt * (records.size + recordsPerLine)
  }

  async function rewrite() {
    // Tombstones stay: an older record that comes late must still be recognized as old.
    const all = [...records.values()]
    await writeAtomically(file, linesOf(all, position))
    written = all.length
    return open(file, 'a')
  }

  async function startOver(): Promise<void> {
    const former = handle
    handle = await rewrite()
    await former.close()
  }

  return {
    records,
    position: () => position,
    async append(added, next) {
      // After a write that stopped half-way nothing behind it would ever be read.
      if (torn) await startOver()
      torn = true
      for (const line of linesOf(added, next)) await handle.write(line)
      await handle.datasync()
      torn = false
      for (const record of added) records.set(record.key, record)
      position = next
      written += Math.max(added.length, 1)
      if (isDue()) await startOver()
    },
    close: () => handle.close(),
  }
}

type Read = {
  records: Map<RecordKey, EdgeRecord>
  position: Position
  /** How many records its lines have, superseded ones included. */
  written: number
  /** Of the last whole batch, in bytes; undefined when the file must be rewritten. */
  end: number | undefined
}

const nowhere: Position = { applied: 0, revision: 0, bucket: '', complete: false }

async function readLog(file: string): Promise<Read> {
  const read: Read = { records: new Map(), position: nowhere, written: 0, end: undefined }
  const share = createSharing()
  let batch: EdgeRecord[] = []
  for await (const { line, end } of readLines(file)) {
    const { records, more, ...reached } = line
    for (const record of records) batch.push(share(record))
    if (more) continue
    for (const record of batch) read.records.set(record.key, record)
    read.written += Math.max(batch.length, 1)
    batch = []
    const isOlder = reached.complete === undefined
    read.position = isOlder ? ofOlderVersion(reached) : reached
    read.end = isOlder ? undefined : end
  }
  if (read.position.complete) return read
  return { ...read, records: new Map(), written: 0, end: undefined }
}

/** An older version also kept what it had read in part: it is served from, as it was then, and all is read once more. */
const ofOlderVersion = ({ applied }: Position): Position => ({
  applied,
  revision: 0,
  bucket: '',
  complete: applied > 0,
})

/**
 * Routes name the same accounts, edges, backends and policies over and over, and each name that is read is a text of its
 * own: kept once, they take a quarter less memory.
 */
function createSharing(): (record: EdgeRecord) => EdgeRecord {
  const texts = new Map<string, string>()
  const shared = <Text extends string>(text: Text): Text => {
    const known = texts.get(text)
    if (known === undefined) texts.set(text, text)
    return (known ?? text) as Text
  }
  return (record) => {
    if (kindOf(record.key) !== 'route' || record.value === null) return record
    const value = record.value as RouteRecord
    value.account = shared(value.account)
    value.edge = shared(value.edge)
    if (value.backend !== null) value.backend = shared(value.backend)
    if (value.policies !== null) value.policies = value.policies.map(shared)
    return record
  }
}
