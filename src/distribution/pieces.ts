import { createHash, hash } from 'node:crypto'
import { yieldToEventLoop } from '../kernel/flow/yield_to_event_loop.ts'
import type { Uuid } from '../kernel/ids.ts'
import type { Cidr } from '../kernel/ip/cidr.ts'
import type { CompiledPolicy, RangeTable } from '../kernel/ip/ranges.ts'
import { boundsOf, startsBelow, startsUpTo } from '../kernel/ip/splice.ts'

export type Family = 4 | 6
export const addressBytes = { 4: 4, 6: 16 } as const

/**
 * A file of a policy: a header, then fixed-size records for each family, in ascending order of the address that they
 * begin with.
 */
export type Layout = {
  readonly recordBytes: Readonly<Record<Family, number>>
  readonly header: (counts: Readonly<Record<Family, number>>) => Buffer
}

/**
 * Header of files that belong to an account: a magic of four letters, the account, and the number of records of each
 * family.
 */
export function accountHeader(magic: string, accountId: Uuid, counts: Readonly<Record<Family, number>>): Buffer {
  const header = Buffer.alloc(accountHeaderBytes)
  header.write(magic, 'latin1')
  header.write(accountId.replaceAll('-', ''), 4, 'hex')
  header.writeUInt32BE(counts[4], 20)
  header.writeUInt32BE(counts[6], 24)
  return header
}
export const accountHeaderBytes = 28

/** A file with at most one record for each range. */
export type Format = Layout & {
  /** Records of the ranges `from` up to `to`. A range has one record or none, independent of the ranges after it. */
  readonly encode: (table: RangeTable, family: Family, from: number, to: number) => Buffer
}

export type Cut = Readonly<Record<Family, readonly Buffer[]>>

/** Addresses, not counts, decide where pieces end: an added rule changes one piece and moves none. */
const pieceEndsOneIn = 4_096
const longestPiece = 4 * pieceEndsOneIn

const names = new WeakMap<Buffer, string>()
/** Cached by piece, because versions of a policy share most of their pieces. */
export function blobName(piece: Buffer): string {
  const name = names.get(piece) ?? hash('sha256', piece, 'hex')
  names.set(piece, name)
  return name
}

export const cutPolicy = ({ v4, v6 }: CompiledPolicy, format: Format): Cut => ({
  4: cutTable(format.encode(v4, 4, 0, v4.verdicts.length), format.recordBytes[4], 4),
  6: cutTable(format.encode(v6, 6, 0, v6.verdicts.length), format.recordBytes[6], 6),
})

export const cutTable = (table: Buffer, recordBytes: number, family: Family): Buffer[] =>
  cut(table, recordBytes, family, true).pieces

/** Same result as cutting the whole policy, if `before` was cut from a policy that differs only in these regions. */
export const continueCut = (
  before: Cut,
  { v4, v6 }: CompiledPolicy,
  regions: readonly Cidr[],
  format: Format,
): Cut => ({
  4: continueTable(before[4], intervalsOf(regions, v4, 4, format), format.recordBytes[4], 4),
  6: continueTable(before[6], intervalsOf(regions, v6, 6, format), format.recordBytes[6], 6),
})

export function piecesWithHeader(of: Cut, { recordBytes, header }: Layout): Buffer[] {
  const count = (family: Family) => of[family].reduce((sum, { length }) => sum + length, 0) / recordBytes[family]
  return [header({ 4: count(4), 6: count(6) }), ...of[4], ...of[6]]
}

export function hashOfAll(pieces: readonly Buffer[]): string {
  const hashing = createHash('sha256')
  for (const piece of pieces) hashing.update(piece)
  return hashing.digest('hex')
}

const hashedAtOnce = 2 * 1024 * 1024

/** Same as `hashOfAll`, but yields to other work in between. */
export async function hashOfAllInSlices(pieces: readonly Buffer[]): Promise<string> {
  const hashing = createHash('sha256')
  let done = 0
  for (const piece of pieces) {
    hashing.update(piece)
    done += piece.length
    if (done < hashedAtOnce) continue
    done = 0
    await yieldToEventLoop()
  }
  return hashing.digest('hex')
}

/** Cuts a table of fixed-size records. Unless the table ends here, the rest starts its next piece. */
function cut(table: Buffer, size: number, family: Family, isEnd: boolean): { pieces: Buffer[]; rest: Buffer } {
  const pieces: Buffer[] = []
  let start = 0
  for (let at = 0; at < table.length; at += size) {
    const end = at + size
    if (
      mixed(table, at, family) % pieceEndsOneIn !== 0 &&
      end - start < longestPiece * size &&
      !(isEnd && end === table.length)
    )
      continue
    pieces.push(table.subarray(start, end))
    start = end
  }
  return { pieces, rest: table.subarray(start) }
}

/**
 * Mixes the whole address: the last half of an IPv6 range is often all zeros, and would then end every piece or none.
 */
function mixed(table: Buffer, start: number, family: Family): number {
  let [value, state] = [0, 0x9e3779b9]
  for (let at = start; at < start + addressBytes[family]; at += 4) {
    const word =
      ((table[at] as number) << 24) |
      ((table[at + 1] as number) << 16) |
      ((table[at + 2] as number) << 8) |
      (table[at + 3] as number)
    value = Math.imul(word ^ state, 0x85ebca6b)
    state = value ^ (value >>> 15)
  }
  return value >>> 8
}

/** Replaces the records that begin with an address from `first` through `last`, or through the end. */
export type Interval = { first: Buffer; last: Buffer | undefined; records: Buffer }
/** The same as a range of indexes. */
type RangeInterval = Omit<Interval, 'records'> & { from: number; to: number }

/** A record marks where a decision begins, so the record after a region changes too. */
function intervalsOf(regions: readonly Cidr[], table: RangeTable, family: Family, { encode }: Format): Interval[] {
  const intervals: RangeInterval[] = []
  const width = family === 4 ? 1 : 4
  for (const region of regions) {
    if (region.network.family !== family) continue
    const { first, next } = boundsOf(region)
    const from = startsBelow(table, first, width)
    const to = next ? startsUpTo(table, next, width) : table.verdicts.length
    const interval = { first: addressOf(first), last: next && addressOf(next), from, to }
    const previous = intervals.at(-1)
    // Adjacent regions share the record between them.
    if (previous?.last && previous.last.compare(interval.first) >= 0) {
      previous.last = interval.last
      previous.to = to
    } else intervals.push(interval)
  }
  return intervals.map(({ first, last, from, to }) => ({ first, last, records: encode(table, family, from, to) }))
}

function addressOf(words: Uint32Array): Buffer {
  const address = Buffer.alloc(words.length * 4)
  for (const [index, word] of words.entries()) address.writeUInt32BE(word, index * 4)
  return address
}

/** Cuts again from the piece with the first change until a new piece ends where an old one did. */
export function continueTable(
  before: readonly Buffer[],
  intervals: readonly Interval[],
  size: number,
  family: Family,
): readonly Buffer[] {
  if (intervals.length === 0) return before
  if (before.length === 0) return cutTable(Buffer.concat(intervals.map(({ records }) => records)), size, family)
  const pieces: Buffer[] = []
  let rest: Buffer = Buffer.alloc(0)
  const left = [...intervals]
  let inserted: Interval | undefined
  for (const [index, piece] of before.entries()) {
    const nextPiece = before[index + 1]
    const isBefore = (address: Buffer) => !nextPiece || compareAddress(nextPiece, 0, address) > 0
    const content: Buffer[] = [rest]
    let kept = 0
    for (let [interval] = left; interval && isBefore(interval.first); [interval] = left) {
      content.push(piece.subarray(kept, recordsBelow(piece, interval.first, size, false)))
      if (inserted !== interval) content.push(interval.records)
      inserted = interval
      kept = interval.last ? recordsBelow(piece, interval.last, size, true) : piece.length
      // The interval continues in the next piece.
      if (!interval.last || !isBefore(interval.last)) break
      left.shift()
    }
    if (content.length === 1 && rest.length === 0) {
      pieces.push(piece)
      continue
    }
    content.push(piece.subarray(kept))
    const again = cut(Buffer.concat(content), size, family, !nextPiece)
    for (const each of again.pieces) pieces.push(each)
    rest = again.rest
  }
  return pieces
}

const compareAddress = (table: Buffer, at: number, address: Buffer): number =>
  table.compare(address, 0, address.length, at, at + address.length)

/** Offset at which the records below an address end, with or without the one at the address. */
function recordsBelow(table: Buffer, address: Buffer, size: number, isIncluded: boolean): number {
  let [low, high] = [0, table.length / size]
  while (low < high) {
    const middle = (low + high) >>> 1
    const order = compareAddress(table, middle * size, address)
    if (order < 0 || (isIncluded && order === 0)) low = middle + 1
    else high = middle
  }
  return low * size
}
