import { crc32 } from 'node:zlib'
import type { RecordRefusal } from '../../distribution/channels.ts'
import type { EdgeRecord } from '../../distribution/records.ts'
import type { Files } from './files.ts'

export type Position = {
  /** Every record up to this generation has been applied. */
  applied: number
  /** How far the node has read the bucket, and when that bucket was created: revisions of another bucket start over. */
  revision: number
  bucket: string
  /** False until the first complete read. Until then, the log has no records either. */
  complete: boolean
}
/** Says that a record is not in force or, with a null reason, that it is in force again. */
export type LoggedRefusal = RecordRefusal | { key: string; reason: null }
/**
 * A batch has one or more lines. Each line has the position after the whole batch; the first one has the batch's
 * refusals.
 */
type Line = {
  records: EdgeRecord[]
  refused?: readonly LoggedRefusal[]
  /** The batch continues in the next line. */
  more?: true
} & Position

export const recordsPerLine = 1_000
const pieceBytes = 4 << 20

export function* linesOf(
  all: readonly EdgeRecord[],
  position: Position,
  refused: readonly LoggedRefusal[],
): Generator<string> {
  for (let start = 0; start < Math.max(all.length, 1); start += recordsPerLine) {
    const end = start + recordsPerLine
    yield toLine({
      records: all.slice(start, end),
      ...(start === 0 && refused.length > 0 && { refused }),
      ...(end < all.length && { more: true }),
      ...position,
    })
  }
}

function toLine(line: Line): string {
  const text = JSON.stringify(line)
  return `${checksumOf(text)} ${text}\n`
}
const checksumOf = (json: string | Buffer): string => crc32(json).toString(16).padStart(8, '0')

/** Reads up to the end or the first damaged line. Streams, because the log of a million routes has 300 MB. */
export async function* readLines(files: Files, file: string): AsyncGenerator<{ line: Line; end: number }> {
  let rest = Buffer.alloc(0)
  let end = 0
  for await (const piece of files.readPieces(file, pieceBytes)) {
    const bytes = Buffer.concat([rest, piece])
    let start = 0
    for (let stop = bytes.indexOf(10); stop >= 0; start = stop + 1, stop = bytes.indexOf(10, start)) {
      const json = bytes.subarray(start + 9, stop)
      if (bytes.toString('latin1', start, start + 8) !== checksumOf(json)) return
      end += stop + 1 - start
      yield { line: JSON.parse(json.toString()), end }
    }
    rest = bytes.subarray(start)
  }
}
