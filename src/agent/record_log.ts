import { mkdir, open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import type { EdgeRecord, RecordKey } from '../distribution/records.ts'
import { writeAtomically } from './atomic_file.ts'

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
export type Position = {
  /** Every record up to this generation has been applied. */
  applied: number
  /** Up to where the bucket has been read, and when that bucket was made: another one counts from the beginning. */
  revision: number
  bucket: string
  /** False until the first complete read: then there are no records here either. */
  complete: boolean
}
type Line = { records: EdgeRecord[] /** The batch goes on in the next line. */; more?: true } & Position

const recordsPerLine = 1_000
/** The log is rewritten when it is this many times longer than its contents. */
const compactAt = 4

export async function openRecordLog(folder: string): Promise<RecordLog> {
  await mkdir(folder, { recursive: true })
  const file = join(folder, 'records.log')
  const records = new Map<RecordKey, EdgeRecord>()
  let position: Position = { applied: 0, revision: 0, bucket: '', complete: false }
  let batch: EdgeRecord[] = []
  for (const { records: read, more, ...reached } of readLines(await readFile(file, 'utf8').catch(() => ''))) {
    batch.push(...read)
    if (more) continue
    for (const record of batch) records.set(record.key, record)
    batch = []
    position = reached.complete === undefined ? ofOlderVersion(reached) : reached
  }
  if (!position.complete) records.clear()
  let written = 0
  let handle = await rewrite()
  let torn = false

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
      if (written >= compactAt * (records.size + recordsPerLine)) await startOver()
    },
    close: () => handle.close(),
  }
}

/** An older version also kept what it had read in part: it is served from, as it was then, and all is read once more. */
const ofOlderVersion = ({ applied }: Position): Position => ({
  applied,
  revision: 0,
  bucket: '',
  complete: applied > 0,
})

function* linesOf(all: readonly EdgeRecord[], position: Position): Generator<string> {
  for (let start = 0; start < Math.max(all.length, 1); start += recordsPerLine) {
    const end = start + recordsPerLine
    yield toLine({ records: all.slice(start, end), ...(end < all.length && { more: true }), ...position })
  }
}

function toLine(line: Line): string {
  const text = JSON.stringify(line)
  return `${crc32(text).toString(16).padStart(8, '0')} ${text}\n`
}

function* readLines(text: string): Generator<Line> {
  let start = 0
  for (let end = text.indexOf('\n'); end >= 0; start = end + 1, end = text.indexOf('\n', start)) {
    const [checksum, json] = [text.slice(start, start + 8), text.slice(start + 9, end)]
    if (checksum !== crc32(json).toString(16).padStart(8, '0')) return
    yield JSON.parse(json)
  }
}
