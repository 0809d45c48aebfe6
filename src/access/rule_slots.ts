import type { CompiledPolicy, RangeTable } from '../kernel/ip/ranges.ts'

const idBytes = 16

/**
 * Assigns numbers to rule ids when part of a policy is recompiled. Rules of the part get new numbers even if they have
 * one already, because finding the old number would mean searching all ids.
 */
export function createSlots(ruleIds: Buffer, idsOfPart: Buffer) {
  const known = ruleIds.length / idBytes
  const slotOf = new Int32Array(idsOfPart.length / idBytes).fill(-1)
  const adopted: Buffer[] = []
  const idAt = (slot: number): Buffer =>
    slot < known ? ruleIds.subarray(slot * idBytes, (slot + 1) * idBytes) : (adopted[slot - known] as Buffer)
  return {
    adopt(verdict: number): number {
      if (verdict === 0) return 0
      const index = Math.abs(verdict) - 1
      let slot = slotOf[index] as number
      if (slot < 0) {
        slot = known + adopted.push(idsOfPart.subarray(index * idBytes, (index + 1) * idBytes)) - 1
        slotOf[index] = slot
      }
      return verdict > 0 ? slot + 1 : -(slot + 1)
    },
    isSame(a: number, b: number): boolean {
      if (a === b) return true
      if (a === 0 || b === 0 || a > 0 !== b > 0) return false
      return idAt(Math.abs(a) - 1).equals(idAt(Math.abs(b) - 1))
    },
    ruleIds: (): Buffer => Buffer.concat([ruleIds, ...adopted]),
  }
}

type Compiled = { ranges: CompiledPolicy; ruleIds: Buffer }

/** Renumbers the rules in use once about a fifth of the numbers are unused. */
export function withoutUnused(ranges: CompiledPolicy, ruleIds: Buffer): Compiled {
  const slots = ruleIds.length / idBytes
  if (slots <= 1.25 * (ranges.v4.verdicts.length + ranges.v6.verdicts.length) + 1_024) return { ranges, ruleIds }
  const numbers = new Int32Array(slots)
  const kept: Buffer[] = []
  const renumbered = ({ starts, verdicts }: RangeTable): RangeTable => ({
    starts,
    verdicts: verdicts.map((verdict) => {
      if (verdict === 0) return 0
      const slot = Math.abs(verdict) - 1
      if (numbers[slot] === 0) numbers[slot] = kept.push(ruleIds.subarray(slot * idBytes, (slot + 1) * idBytes))
      const number = numbers[slot] as number
      return verdict > 0 ? number : -number
    }),
  })
  const { v4, v6 } = { v4: renumbered(ranges.v4), v6: renumbered(ranges.v6) }
  return { ranges: { v4, v6 }, ruleIds: Buffer.concat(kept) }
}
