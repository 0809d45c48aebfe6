import { isDeepStrictEqual } from 'node:util'
import type { Action } from '../../kernel/ip/ranges.ts'

/** A rule in the past. Its id is unknown if a replacement of the whole set removed it. */
export type PastRule = {
  readonly action: Action
  readonly expiresAt: number | null
  readonly id: string | null
}
export type PastDecider = { readonly enforced: boolean; readonly policies: readonly string[] }

/** Everything that decided about one address at a place, at some moment. Ids are as in the audit log. */
export type PastWorld = {
  readonly restrictions: Map<string, PastDecider>
  /** By policy and range. Only ranges that contain the address. */
  readonly rules: Map<string, Map<string, PastRule>>
  /** Policies whose earlier rules are not recorded, with the change before which they are unknown. */
  readonly lost: Map<string, PastChange>
  /** Whether the TCP edge or route existed, if the question names one. */
  isThere: boolean
  /** Its `ip_restriction` module, if it is enabled. */
  module: PastDecider | undefined
}

type Fields = Readonly<Record<string, unknown>>
export type PastChange = {
  readonly operation: string
  readonly operation_id: string
  readonly resource_id: string
  readonly created_at: string
  readonly before: Fields | null
  readonly after: Fields | null
}
/** How a bulk change altered the rules whose range contains the address. */
export type RuleSetDelta = {
  readonly removed: ReadonlyMap<string, PastRule>
  readonly added: readonly string[]
}

export type Subject = {
  readonly type: string
  readonly target: string | undefined
  /** Whether a canonical range contains the address. */
  readonly isAround: (cidr: string) => boolean
  /** Undefined if it was never recorded or has been deleted. */
  readonly deltaOf: (change: PastChange) => RuleSetDelta | undefined
}

/** The state before this change is unknown. */
export class NotRecorded extends Error {
  readonly change: Pick<PastChange, 'operation' | 'resource_id' | 'created_at'>
  constructor(change: NotRecorded['change']) {
    super(`not recorded before ${change.operation}`)
    this.change = change
  }
}

/** Bulk changes: their audit events hold only the number of rules. */
export const ruleSetOperations = ['ip_policies.replace_rules', 'ip_policies.remove_rules', 'ip_policies.delete']

/**
 * Reverts these changes, latest first. Each must have produced the state that is there; otherwise the audit log misses
 * a change, and everything before it is unknown.
 */
export function walkBack(world: PastWorld, changes: readonly PastChange[], subject: Subject): void {
  for (const change of changes) {
    const { operation, resource_id } = change
    if (resource_id.startsWith('ipx_')) undoRestriction(world, change, subject)
    else if (resource_id.startsWith('ipr_')) undoRule(world, change, subject)
    else if (ruleSetOperations.includes(operation)) undoRuleSet(world, change, subject)
    else if (subject.target !== undefined) undoTarget(world, change, subject.target)
  }
}

function expect(isSo: boolean, change: PastChange): void {
  if (!isSo) throw new NotRecorded(change)
}

function undoRestriction({ restrictions }: PastWorld, change: PastChange, { type }: Subject): void {
  const { resource_id: id, before, after } = change
  if ((before ?? after)?.type !== type) return
  expect(isDeepStrictEqual(restrictions.get(id), after ? deciderOf(after) : undefined), change)
  if (before) restrictions.set(id, deciderOf(before))
  else restrictions.delete(id)
}

function undoRule({ rules, lost }: PastWorld, change: PastChange, { isAround }: Subject): void {
  const { resource_id, before, after } = change
  const policy = idOf((before ?? after)?.ip_policy)
  const known = rules.get(policy)
  // The policy is not attached to anything that decides.
  if (!known || lost.has(policy)) return
  for (const [fields, isThere] of [
    [after, true],
    [before, false],
  ] as const) {
    const cidr = String(fields?.cidr)
    if (!fields || !isAround(cidr)) continue
    const found = known.get(cidr)
    const { action, expiresAt } = ruleOf(fields, resource_id)
    if (isThere) {
      expect(found?.action === action && found.expiresAt === expiresAt, change)
      known.delete(cidr)
    } else {
      expect(found === undefined, change)
      known.set(cidr, ruleOf(fields, resource_id))
    }
  }
}

function undoRuleSet({ rules, lost }: PastWorld, change: PastChange, subject: Subject): void {
  const policy = change.resource_id
  if (lost.has(policy)) return
  const delta = subject.deltaOf(change)
  const known = rules.get(policy)
  if (!known) return
  if (!delta) {
    lost.set(policy, change)
    return
  }
  for (const cidr of delta.added) {
    expect(known.has(cidr), change)
    known.delete(cidr)
  }
  for (const [cidr, rule] of delta.removed) {
    expect(!known.has(cidr), change)
    known.set(cidr, rule)
  }
}

function undoTarget(world: PastWorld, change: PastChange, target: string): void {
  const { operation, resource_id, before, after } = change
  const isItself = resource_id === target
  // Deleting an edge deletes its routes.
  const routes = (operation === 'https_edges.delete' ? before?.routes : undefined) as Fields[] | undefined
  const gone = isItself && !after && before?.id === target ? before : routes?.find(({ id }) => id === target)
  if (gone) {
    expect(!world.isThere, change)
    world.isThere = true
    world.module = moduleOf(gone.ip_restriction)
    return
  }
  if (!isItself) return
  if (!before && after?.id === target) {
    expect(world.isThere && isDeepStrictEqual(world.module, moduleOf(after.ip_restriction)), change)
    world.isThere = false
    world.module = undefined
  } else if ('ip_restriction' in { ...before, ...after }) {
    expect(isDeepStrictEqual(world.module, moduleOf(after?.ip_restriction)), change)
    world.module = moduleOf(before?.ip_restriction)
  }
}

const ruleOf = ({ action, expires_at }: Fields, id: string): PastRule => ({
  action: action === 'allow' ? 'allow' : 'deny',
  expiresAt: typeof expires_at === 'string' ? Date.parse(expires_at) : null,
  id,
})

const deciderOf = ({ enforced, ip_policies }: Fields): PastDecider => ({
  enforced: enforced === true,
  policies: idsOf(ip_policies),
})

function moduleOf(module: unknown): PastDecider | undefined {
  const { enabled, mode, ip_policies } = (module ?? { enabled: false }) as Fields
  return enabled === false ? undefined : { enforced: mode !== 'warn', policies: idsOf(ip_policies) }
}

const idOf = (ref: unknown): string => String((ref as { id?: unknown } | undefined)?.id)
const idsOf = (refs: unknown): string[] => (Array.isArray(refs) ? refs.map(idOf) : [])

/** Policies that these changes attached or detached; they may have decided earlier. */
export const policiesIn = (changes: readonly PastChange[]): string[] =>
  changes.flatMap(({ before, after }) =>
    [before, after].flatMap((fields) => {
      const modules = [fields, ...((fields?.routes as Fields[] | undefined) ?? [])].map((each) => each?.ip_restriction)
      return [...idsOf(fields?.ip_policies), ...modules.flatMap((module) => idsOf((module as Fields)?.ip_policies))]
    }),
  )
