import { hash } from 'node:crypto'
import type { CompiledPolicy, RangeTable } from '../kernel/ip/ranges.ts'

/**
 * The compiled rules of a policy as a file that an edge searches as it is: `GHP1`, the number of IPv4 and of IPv6 ranges,
 * then for each range its first address and one byte: 0 no rule, 1 allow, 2 deny. A range ends where the next begins.
 */
const magic = 'GHP1'
export const headerBytes = 12
const recordBytes = { 4: 5, 6: 17 } as const
export type Family = keyof typeof recordBytes

/** Pieces end where an address says so, not at a count: one more rule changes one piece and moves none. */
const pieceEndsOneIn = 4_096
const longestPiece = 4 * pieceEndsOneIn

export type PolicyFile = { hash: string; bytes: Buffer; pieces: Buffer[] }

export function encodePolicy({ v4, v6 }: CompiledPolicy): PolicyFile {
  const tables = [encodeTable(v4, 4), encodeTable(v6, 6)] as const
  const header = Buffer.alloc(headerBytes)
  header.write(magic, 'latin1')
  header.writeUInt32BE(tables[0].length / recordBytes[4], 4)
  header.writeUInt32BE(tables[1].length / recordBytes[6], 8)
  const bytes = Buffer.concat([header, ...tables])
  return {
    hash: hash('sha256', bytes, 'hex'),
    bytes,
    pieces: [
      header,
      ...piecesOf(tables[0], recordBytes[4], recordBytes[4] - 1),
      ...piecesOf(tables[1], recordBytes[6], recordBytes[6] - 1),
    ],
  }
}

/** Merges adjacent ranges with the same decision: the edge does not need to know which rule decided. */
function encodeTable({ starts, verdicts }: RangeTable, family: Family): Buffer {
  const words = family === 4 ? 1 : 4
  const out = Buffer.alloc(verdicts.length * recordBytes[family])
  let at = 0
  let last = 0
  for (const [index, verdict] of verdicts.entries()) {
    const decision = verdict === 0 ? 0 : verdict > 0 ? 1 : 2
    if (decision === last) continue
    for (let word = 0; word < words; word++) at = out.writeUInt32BE(starts[index * words + word] as number, at)
    at = out.writeUInt8(decision, at)
    last = decision
  }
  return out.subarray(0, at)
}

/** Of records of one size that begin with an address. */
export function piecesOf(table: Buffer, size: number, addressBytes: number): Buffer[] {
  const found: Buffer[] = []
  let start = 0
  for (let at = 0; at < table.length; at += size) {
    const end = at + size
    const mixed = Math.imul(table.readUInt32BE(at + addressBytes - 4) ^ 0x9e3779b9, 0x85ebca6b) >>> 8
    if (mixed % pieceEndsOneIn !== 0 && end - start < longestPiece * size && end < table.length) continue
    found.push(table.subarray(start, end))
    start = end
  }
  return found
}

/** Why these bytes are no policy file; undefined when they are one. Checked before HAProxy sees it. */
export function policyFileFault(bytes: Buffer): string | undefined {
  if (bytes.length < headerBytes || bytes.toString('latin1', 0, 4) !== magic) return 'is not a policy file'
  const [count4, count6] = [bytes.readUInt32BE(4), bytes.readUInt32BE(8)]
  if (bytes.length !== headerBytes + count4 * recordBytes[4] + count6 * recordBytes[6])
    return 'has another length than it says'
  return (
    tableFault(bytes, headerBytes, count4, 4) ?? tableFault(bytes, headerBytes + count4 * recordBytes[4], count6, 6)
  )
}

function tableFault(bytes: Buffer, offset: number, count: number, family: Family): string | undefined {
  const size = recordBytes[family]
  for (let index = 0; index < count; index++) {
    const at = offset + index * size
    if ((bytes[at + size - 1] as number) > 2) return 'has an unknown verdict'
  }
  return orderFault(bytes.subarray(offset, offset + count * size), size, size - 1)
}

/** Whoever searches records by halves relies on their order. */
export function orderFault(table: Buffer, size: number, addressBytes: number): string | undefined {
  for (let at = size; at < table.length; at += size)
    if (table.compare(table, at - size, at - size + addressBytes, at, at + addressBytes) <= 0)
      return 'has ranges out of order'
  return undefined
}
