import type { Rule } from '../../rules.ts'

export function Impact(_: { policyId: string; rules: readonly Rule[] }) {
  return null
}
