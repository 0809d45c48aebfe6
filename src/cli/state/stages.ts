import { isDeepStrictEqual } from 'node:util'
import type { Json, Rule, Thing } from './kinds.ts'

/**
 * The order of a run. First what has no effect yet, then what lets in less, then what cannot be told, then what lets in
 * more, and deletions last. So nothing gets through in between that would get through neither before nor after.
 */
export const stages = ['prepare', 'tighten', 'change', 'loosen', 'delete'] as const
export type Stage = (typeof stages)[number]

const has = (rules: readonly Rule[], action: string) => rules.some((rule) => rule.action === action)

/** Fewer allowed and more denied is tighter, whatever the ranges; both at once cannot be told from the rules alone. */
export function rulesClass(added: readonly Rule[], removed: readonly Rule[]): Stage {
  const lets = has(added, 'allow') || has(removed, 'deny')
  const refuses = has(added, 'deny') || has(removed, 'allow')
  return lets && refuses ? 'change' : lets ? 'loosen' : 'tighten'
}

const restricts = (fields: Json): boolean => {
  const module = fields.ip_restriction as { enabled?: boolean } | undefined
  return module !== undefined && module.enabled !== false
}

export function fieldsClass({ kind, fields: wanted }: Thing, { fields: present }: Thing): Stage {
  if (kind === 'ip_restrictions') {
    if (!present.enforced && wanted.enforced) return 'tighten'
    return present.enforced && !wanted.enforced ? 'loosen' : 'change'
  }
  const [before, after] = [present, wanted].map(({ hostports }) => (hostports ?? []) as string[])
  if (after?.some((each) => !before?.includes(each))) return 'loosen'
  if (restricts(present) && !restricts(wanted)) return 'loosen'
  if (!restricts(present) && restricts(wanted)) return 'tighten'
  const others = (fields: Json) => ({ ...fields, hostports: undefined })
  return before?.length !== after?.length && isDeepStrictEqual(others(present), others(wanted)) ? 'tighten' : 'change'
}
