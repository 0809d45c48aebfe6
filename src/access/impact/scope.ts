import { type Id, isId, toUuid, type Uuid } from '../../kernel/ids.ts'
import { type RestrictionType, restrictionTypes } from '../policies.ts'

/** A resource before and after a change, as in the audit log. */
export type Changed = { readonly resource: string; readonly before: object | null; readonly after: object | null }

/** The parts of a change that can decide about addresses: where to look for changed decisions. */
export type Scope = {
  readonly types: readonly RestrictionType[]
  readonly policies: readonly Uuid[]
  /** TCP edges and routes. */
  readonly targets: readonly Uuid[]
  /** HTTPS edges, including all their routes. */
  readonly edges: readonly Uuid[]
}

export function scopeOf(changes: readonly Changed[]): Scope {
  const types = new Set<string>()
  const ids = new Set<string>()
  for (const { resource, before, after } of changes) {
    ids.add(resource)
    for (const fields of [before, after] as ({ [name: string]: unknown } | null)[]) {
      if (isId('ipx', resource)) types.add(String(fields?.type))
      if (isId('ipr', resource)) ids.add(String((fields?.ip_policy as { id?: unknown } | undefined)?.id))
      // A new or removed route changes which requests the other routes of its edge receive.
      if (isId('edghtsrt', resource) && !(before && after)) ids.add(String(fields?.edge_id))
    }
  }
  const named = <P extends 'ipp' | 'edgtcp' | 'edghts' | 'edghtsrt'>(prefix: P): Uuid[] =>
    [...ids].filter((id): id is Id<P> => isId(prefix, id)).map(toUuid)
  return {
    types: restrictionTypes.filter((type) => types.has(type)),
    policies: named('ipp'),
    targets: [...named('edgtcp'), ...named('edghtsrt')],
    edges: named('edghts'),
  }
}

export const isEmpty = ({ types, policies, targets, edges }: Scope): boolean =>
  types.length + policies.length + targets.length + edges.length === 0
