import { hash } from 'node:crypto'
import type { Uuid } from '../kernel/ids.ts'
import type { CompiledPolicy, RangeTable } from '../kernel/ip/ranges.ts'
import { type Family, orderFault, type PolicyFile, piecesOf } from './policy_file.ts'

/**
 * Which rule decides about an address, for edges to count: `GHR1`, the account, the number of IPv4 and of IPv6 ranges, then
 * for each range that a rule decides about its first address and the rule's id. Where no rule matches there is no range:
 * the policy file says so, and nobody asks then. No decision is made by this file, so that a node without it refuses and
 * allows the same.
 */
const magic = 'GHR1'
const headerBytes = 28
const idBytes = 16
const addressBytes = { 4: 4, 6: 16 } as const
const recordBytes = (family: Family) => addressBytes[family] + idBytes

/** `ruleIds`: 16 bytes each, in the order of compilation. */
export function encodeRules(accountId: Uuid, { v4, v6 }: CompiledPolicy, ruleIds: Buffer): PolicyFile {
  const tables = [encodeTable(v4, 4, ruleIds), encodeTable(v6, 6, ruleIds)] as const
  const header = Buffer.alloc(headerBytes)
  header.write(magic, 'latin1')
  header.write(accountId.replaceAll('-', ''), 4, 'hex')
  header.writeUInt32BE(tables[0].length / recordBytes(4), 20)
  header.writeUInt32BE(tables[1].length / recordBytes(6), 24)
  const bytes = Buffer.concat([header, ...tables])
  return {
    hash: hash('sha256', bytes, 'hex'),
    bytes,
    pieces: [
      header,
      ...piecesOf(tables[0], recordBytes(4), addressBytes[4]),
      ...piecesOf(tables[1], recordBytes(6), addressBytes[6]),
    ],
  }
}

function encodeTable({ starts, verdicts }: RangeTable, family: Family, ruleIds: Buffer): Buffer {
  const words = addressBytes[family] / 4
  const out = Buffer.alloc(verdicts.length * recordBytes(family))
  let at = 0
  for (const [index, verdict] of verdicts.entries()) {
    if (verdict === 0) continue
    for (let word = 0; word < words; word++) at = out.writeUInt32BE(starts[index * words + word] as number, at)
    const id = (Math.abs(verdict) - 1) * idBytes
    at += ruleIds.copy(out, at, id, id + idBytes)
  }
  return out.subarray(0, at)
}

/** Why these bytes are no such file; undefined when they are one. Checked before HAProxy sees it. */
export function ruleFileFault(bytes: Buffer): string | undefined {
  if (bytes.length < headerBytes || bytes.toString('latin1', 0, 4) !== magic) return 'is not a file of rules'
  const [count4, count6] = [bytes.readUInt32BE(20), bytes.readUInt32BE(24)]
  const end4 = headerBytes + count4 * recordBytes(4)
  if (bytes.length !== end4 + count6 * recordBytes(6)) return 'has another length than it says'
  return (
    orderFault(bytes.subarray(headerBytes, end4), recordBytes(4), addressBytes[4]) ??
    orderFault(bytes.subarray(end4), recordBytes(6), addressBytes[6])
  )
}
