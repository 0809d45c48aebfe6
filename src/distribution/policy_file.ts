import type { CompiledPolicy, RangeTable } from '../kernel/ip/ranges.ts'
import {
  addressBytes,
  type Cut,
  cutPolicy,
  type Family,
  type Format,
  hashOfAll,
  type Layout,
  piecesWithHeader,
} from './pieces.ts'

/**
 * The compiled rules of a policy as a file that an edge searches in place: `GHP1`, the numbers of IPv4 and IPv6 ranges,
 * then for each range its first address and one byte: 0 no rule, 1 allow, 2 deny. A range ends where the next begins.
 */
const magic = 'GHP1'
export const headerBytes = 12
const recordBytes = { 4: 5, 6: 17 } as const

export type PolicyFile = { hash: string; bytes: Buffer; pieces: Buffer[] }

export const policyFormat: Format = {
  recordBytes,
  header(counts) {
    const header = Buffer.alloc(headerBytes)
    header.write(magic, 'latin1')
    header.writeUInt32BE(counts[4], 4)
    header.writeUInt32BE(counts[6], 8)
    return header
  },
  /** Merges adjacent ranges with the same decision, because the edge does not need the deciding rule here. */
  encode({ starts, verdicts }: RangeTable, family, from, to) {
    const out = Buffer.alloc((to - from) * recordBytes[family])
    let at = 0
    let last = from === 0 ? 0 : decisionOf(verdicts[from - 1] as number)
    for (let index = from; index < to; index++) {
      const decision = decisionOf(verdicts[index] as number)
      if (decision === last) continue
      at = writeAddress(out, at, starts, index, family)
      out[at++] = decision
      last = decision
    }
    return out.subarray(0, at)
  },
}

const decisionOf = (verdict: number): number => (verdict === 0 ? 0 : verdict > 0 ? 1 : 2)

/** Writes single bytes: a million calls of `writeUInt32BE` take several times as long. */
export function writeAddress(out: Buffer, start: number, starts: Uint32Array, index: number, family: Family): number {
  let at = start
  const words = addressBytes[family] / 4
  for (let word = index * words; word < (index + 1) * words; word++) {
    const value = starts[word] as number
    out[at++] = value >>> 24
    out[at++] = value >>> 16
    out[at++] = value >>> 8
    out[at++] = value
  }
  return at
}

export const encodePolicy = (policy: CompiledPolicy): PolicyFile =>
  wholeFile(cutPolicy(policy, policyFormat), policyFormat)

export function wholeFile(cut: Cut, layout: Layout): PolicyFile {
  const pieces = piecesWithHeader(cut, layout)
  return { hash: hashOfAll(pieces), bytes: Buffer.concat(pieces), pieces }
}

/** Why the bytes are not a policy file; undefined if they are. Checked before HAProxy reads them. */
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

/** Checks the order, which binary search relies on. */
export function orderFault(table: Buffer, size: number, addressBytes: number): string | undefined {
  for (let at = size; at < table.length; at += size)
    if (!isBelow(table, at - size, at, addressBytes)) return 'has ranges out of order'
  return undefined
}

/** Compares single bytes, most of which differ early: comparing buffers takes ten times as long. */
function isBelow(table: Buffer, left: number, right: number, bytes: number): boolean {
  for (let index = 0; index < bytes; index++) {
    const difference = (table[left + index] as number) - (table[right + index] as number)
    if (difference !== 0) return difference < 0
  }
  return false
}
