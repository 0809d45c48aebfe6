import { hash } from 'node:crypto'
import type { EdgeRecord } from './records.ts'

/** A signed record. The digest of live records depends neither on its content nor on whether a node could apply it. */
export type Signed = { key: string; generation: number; isLive: boolean }

/**
 * 1,024 bits, because a sum of hashes is weaker than its length suggests: an attacker who can choose between two versions of some
 * ten thousand records could make a sum of 256 bits come out right (docs/adr/0084).
 */
const bits = 1_024

/** Independent of order. A change costs the same for any number of records. */
export type LiveSet = {
  add: (key: string, generation: number) => void
  remove: (key: string, generation: number) => void
  digest: () => string
  copy: () => LiveSet
}

export function createLiveSet(from = 0n): LiveSet {
  let sum = from
  return {
    add(key, generation) {
      sum = BigInt.asUintN(bits, sum + hashOf(key, generation))
    },
    remove(key, generation) {
      sum = BigInt.asUintN(bits, sum - hashOf(key, generation))
    },
    digest: () => sum.toString(16),
    copy: () => createLiveSet(sum),
  }
}

const hashOf = (key: string, generation: number): bigint =>
  BigInt(`0x${hash('shake256', `${key} ${generation}`, { outputEncoding: 'hex', outputLength: bits / 8 })}`)

export const signedOf = ({ key, generation, value }: EdgeRecord): Signed => ({
  key,
  generation,
  isLive: value !== null,
})
