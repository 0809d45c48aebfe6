import type { Json, Thing } from './kinds.ts'

/**
 * The order of a run: steps without effect; steps that let in less; unclear ones; steps that let in more, first
 * decisions and then, once everything that refers to them is in place, rules; finally deletions of unused resources.
 * Nothing gets through in between that would get through neither before nor after.
 */
export const stages = ['prepare', 'tighten', 'change', 'loosen', 'widen', 'delete'] as const
export type Stage = (typeof stages)[number]

const restricts = (fields: Json): boolean => {
  const module = fields.ip_restriction as { enabled?: boolean } | undefined
  return module !== undefined && module.enabled !== false
}

/** The stage in which a resource is changed, except for its hostports, which have two steps of their own. */
export function fieldsClass({ kind, fields: wanted }: Thing, { fields: present }: Thing): Stage {
  const [before, after] =
    kind === 'ip_restrictions'
      ? [present.enforced === true, wanted.enforced === true]
      : [restricts(present), restricts(wanted)]
  return before === after ? 'change' : after ? 'tighten' : 'loosen'
}
