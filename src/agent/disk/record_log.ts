import { join } from 'node:path'
import type { RecordRefusal } from '../../distribution/channels.ts'
import { type EdgeRecord, kindOf, type RecordKey, type RouteRecord } from '../../distribution/records.ts'
import { diskFiles, type Files, type OpenFile } from './files.ts'
import { type LoggedRefusal, linesOf, type Position, readLines, recordsPerLine } from './record_lines.ts'

export type { Position } from './record_lines.ts'

/**
 * The node's own copy of all records, from which it starts when everything else is down. A batch has one or more lines
 * with a checksum. Reading stops at a line that a power cut has torn, and a batch without its last line does not count.
 * The log therefore holds consistent states only; NATS has the rest.
 */
export type RecordLog = {
  readonly records: Map<RecordKey, EdgeRecord>
  /** Refused records that no later version has replaced. */
  readonly refused: ReadonlyMap<RecordKey, RecordRefusal>
  /** Where to resume in the bucket. */
  position: () => Position
  /** The batch is on disk once this resolves. If it throws, none of it counts as known. */
  append: (records: readonly EdgeRecord[], position: Position, refused?: readonly LoggedRefusal[]) => Promise<void>
  isLong: () => boolean
  /** Writes a new log without superseded lines. The old log stays in use until the new one is complete. */
  compact: () => Promise<void>
  close: () => Promise<void>
}

/** Compaction is due when the log is several times longer than its contents. */
const longAt = (records: number): number => 4 * (records + recordsPerLine)

export async function openRecordLog(folder: string, files = diskFiles, isLongAt = longAt): Promise<RecordLog> {
  await files.makeFolder(folder)
  const file = join(folder, 'records.log')
  const { records, refused, position: read, written: found, end: foundEnd } = await readLog(files, file)
  let position = read
  let written = found
  /** End of the last whole batch, in bytes. */
  let end = foundEnd ?? 0
  let isTorn = true
  /** After a power cut the folder might have the old file again, so the new one must not be appended to yet. */
  let isRenamed = false
  /** Undefined if the first batch has to rewrite the file: a node must start from any disk that it can read. */
  let handle = foundEnd === undefined ? undefined : await files.open(file, 'append').catch(() => undefined)

  /** Data after the last whole batch would hide everything that is appended later. */
  async function openWhole(): Promise<OpenFile> {
    const log = handle ?? (await rewrite())
    if (isRenamed) await files.syncFolder(folder)
    isRenamed = false
    if (isTorn) await log.truncate(end)
    isTorn = false
    return log
  }

  async function rewrite(): Promise<OpenFile> {
    // Tombstones stay: they identify an older record that arrives late as old.
    const all = [...records.values()]
    const opened = await files.open(`${file}.new`, 'empty')
    let length = 0
    try {
      for (const line of linesOf(all, position, [...refused.values()])) {
        await opened.write(line)
        length += Buffer.byteLength(line)
      }
      await opened.sync()
      await files.rename(`${file}.new`, file)
    } catch (error) {
      await opened.close().catch(() => {})
      throw error
    }
    // The name refers to the new file from here on. Appending to the old one would lose data.
    const former = handle
    handle = opened
    isRenamed = true
    isTorn = false
    end = length
    written = all.length
    await former?.close().catch(() => {})
    return opened
  }

  return {
    records,
    refused,
    position: () => position,
    async append(added, next, newlyRefused = []) {
      const log = await openWhole()
      isTorn = true
      let length = 0
      for (const line of linesOf(added, next, newlyRefused)) {
        await log.write(line)
        length += Buffer.byteLength(line)
      }
      await log.sync()
      isTorn = false
      end += length
      for (const record of added) records.set(record.key, record)
      note(refused, newlyRefused)
      position = next
      written += Math.max(added.length, 1)
    },
    isLong: () => written >= isLongAt(records.size),
    compact: async () => {
      await rewrite()
      await openWhole()
    },
    close: async () => handle?.close(),
  }
}

type Read = {
  records: Map<RecordKey, EdgeRecord>
  refused: Map<RecordKey, RecordRefusal>
  position: Position
  /** Number of records in its lines, including superseded ones. */
  written: number
  /** End of the last whole batch, in bytes; undefined if the file must be rewritten. */
  end: number | undefined
}

const nowhere: Position = { applied: 0, revision: 0, bucket: '', complete: false }

async function readLog(files: Files, file: string): Promise<Read> {
  const read: Read = { records: new Map(), refused: new Map(), position: nowhere, written: 0, end: undefined }
  const share = createSharing()
  let batch: EdgeRecord[] = []
  let refusals: readonly LoggedRefusal[] = []
  for await (const { line, end } of readLines(files, file)) {
    const { records, refused = [], more, ...reached } = line
    for (const record of records) batch.push(share(record))
    refusals = [...refusals, ...refused]
    if (more) continue
    for (const record of batch) read.records.set(record.key, record)
    read.written += Math.max(batch.length, 1)
    note(read.refused, refusals)
    batch = []
    refusals = []
    const isOlder = reached.complete === undefined
    read.position = isOlder ? ofOlderVersion(reached) : reached
    read.end = isOlder ? undefined : end
  }
  if (read.position.complete) return read
  return { ...read, records: new Map(), refused: new Map(), written: 0, end: undefined }
}

function note(refused: Map<RecordKey, RecordRefusal>, changes: readonly LoggedRefusal[]): void {
  for (const change of changes) {
    if (change.reason === null) refused.delete(change.key as RecordKey)
    else refused.set(change.key as RecordKey, change)
  }
}

/** An older version also logged partly read states. The node serves these as before and reads everything again. */
const ofOlderVersion = ({ applied }: Position): Position => ({
  applied,
  revision: 0,
  bucket: '',
  complete: applied > 0,
})

/**
 * Interns strings. Routes reference the same accounts, edges, backends and policies over and over, and parsing creates a
 * new string each time; sharing them saves a quarter of the memory.
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
