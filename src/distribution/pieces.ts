import { createHash, hash } from 'node:crypto'
import { yieldToEventLoop } from '../kernel/flow/yield_to_event_loop.ts'
import type { Uuid } from '../kernel/ids.ts'
import type { Cidr } from '../kernel/ip/cidr.ts'
import type { CompiledPolicy, RangeTable } from '../kernel/ip/ranges.ts'
import { boundsOf, startsBelow, startsUpTo } from '../kernel/ip/splice.ts'

export type Family = 4 | 6
export const addressBytes = { 4: 4, 6: 16 } as const

/** A file of a policy: a header, then records of one size for each family, which begin with an address and ascend. */
export type Layout = {
  readonly recordBytes: Readonly<Record<Family, number>>
  readonly header: (counts: Readonly<Record<Family, number>>) => Buffer
}

/** For files that belong to an account: a word of four letters, the account, and the number of records of each family. */
export function accountHeader(magic: string, accountId: Uuid, counts: Readonly<Record<Family, number>>): Buffer {
  const header = Buffer.alloc(accountHeaderBytes)
  header.write(magic, 'latin1')
  header.write(accountId.replaceAll('-', ''), 4, 'hex')
  header.writeUInt32BE(counts[4], 20)
  header.writeUInt32BE(counts[6], 24)
  return header
}
export const accountHeaderBytes = 28

/** A file with a record for each range. */
export type Format = Layout & {
  /** The records of the ranges from one index up to another. A range has one or none, independent of the ranges behind it. */
  readonly encode: (table: RangeTable, family: Family, from: number, to: number) => Buffer
}

/** The records of a file, cut into pieces. */
export type Cut = Readonly<Record<Family, readonly Buffer[]>>

/** Pieces end where an address says so, not at a count: one more rule changes one piece and moves none. */
const pieceEndsOneIn = 4_096
const longestPiece = 4 * pieceEndsOneIn

const names = new WeakMap<Buffer, string>()
/** Versions of a policy share most of their pieces: each is hashed once. */
export function blobName(piece: Buffer): string {
  const name = names.get(piece) ?? hash('sha256', piece, 'hex')
  names.set(piece, name)
  return name
}

export const cutPolicy = ({ v4, v6 }: CompiledPolicy, format: Format): Cut => ({
  4: cutTable(format.encode(v4, 4, 0, v4.verdicts.length), format.recordBytes[4], 4),
  6: cutTable(format.encode(v6, 6, 0, v6.verdicts.length), format.recordBytes[6], 6),
})

/** All records of one family. */
export const cutTable = (table: Buffer, recordBytes: number, family: Family): Buffer[] =>
  cut(table, recordBytes, family, true).pieces

/** The same as cutting all of the policy, if `before` is cut from one that differs in these regions only. */
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

/** The same, giving way to others now and then. */
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

/** Records have one size; the rest of a table that goes on is the beginning of its next piece. */
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

/** Mixes the whole address: the last half of an IPv6 range is often all zeros, and would then end every piece or none. */
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

/** What replaces the records that begin with anything from `first` up to and including `last`, or up to the end. */
export type Interval = { first: Buffer; last: Buffer | undefined; records: Buffer }
/** The same as the ranges from one index up to another. */
type RangeInterval = Omit<Interval, 'records'> & { from: number; to: number }

/** A record says where a decision begins, so the one behind a region is part of what changes. */
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
    // Neighbors share the record between them.
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

/** Cuts again from the piece with the first change until a piece ends where one ended before. */
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
      // It goes on in the next piece.
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

/** Where the records below an address end, with the one at the address or without it. */
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
