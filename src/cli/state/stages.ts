import type { Json, Thing } from './kinds.ts'

/**
 * The order of a run: what has no effect yet; what lets in less; what cannot be told; what lets in more, first where it
 * is decided and then, when all who refer to them are what they are to be, the rules; and deletions of what is not used
 * any more. So nothing gets through in between that would get through neither before nor after.
 */
export const stages = ['prepare', 'tighten', 'change', 'loosen', 'widen', 'delete'] as const
export type Stage = (typeof stages)[number]

const restricts = (fields: Json): boolean => {
  const module = fields.ip_restriction as { enabled?: boolean } | undefined
  return module !== undefined && module.enabled !== false
}

/** When a thing is changed, but for its hostports, which are two steps of their own. */
export function fieldsClass({ kind, fields: wanted }: Thing, { fields: present }: Thing): Stage {
  const [before, after] =
    kind === 'ip_restrictions'
      ? [present.enforced === true, wanted.enforced === true]
      : [restricts(present), restricts(wanted)]
  return before === after ? 'change' : after ? 'tighten' : 'loosen'
}
