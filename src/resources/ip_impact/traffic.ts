import {
  type LastSeen,
  listLastSeen,
  listLastSeenAtModules,
  type SeenAtModule,
} from '../../access/evidence/last_seen.ts'
import { type RestrictionOutline, type RestrictionType, restrictionTypes } from '../../access/policies.ts'
import { flipsOf, type WhatIf, type WhatIfOf } from '../../access/what_if.ts'
import type { Db } from '../../db/pool.ts'
import type { Caller } from '../../identity/caller.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { Uuid } from '../../kernel/ids.ts'
import { formatAddress } from '../../kernel/ip/address.ts'
import { listRestrictedBy } from '../edges/store.ts'
import { refsOf } from '../edges/view.ts'
import { refTo } from '../ip_restrictions/decided_by.ts'
import { type Impact, maxListed } from './schema.ts'

type Question = {
  db: Db
  caller: Caller
  policyId: Uuid
  since: number
  restrictions: readonly RestrictionOutline[]
  decidersOf: WhatIfOf
  uri: (path: string) => string
}
type Traffic = Impact['traffic'][number]
type Ref = Traffic['used_by'][number]
type Sighting = LastSeen & { target?: Ref }

/** The number of addresses kept per account and traffic type. */
const maxTried = 10_000

const lookedAt: Record<RestrictionType, string> = {
  api: 'The addresses that called the API with a key of the account, in the dashboard or directly.',
  dashboard: 'The addresses from which the dashboard was used.',
  agent: 'None: which addresses agents ask about is not kept.',
  endpoints: 'The addresses that edges refused or warned of, and those that they reported to have let in.',
}

/** All restrictions of this traffic. */
export const decidersFor = (restrictions: readonly RestrictionOutline[], type: RestrictionType) =>
  restrictions
    .filter((each) => each.type === type)
    .map((each) => ({ enforced: each.enforced, policies: policiesOf(each) }))

const policiesOf = ({ policies }: RestrictionOutline): Uuid[] => policies.map(({ id }) => id)

/** One entry per type of traffic that restrictions with this policy refuse or warn about. */
export async function impactOnRestrictions(question: Question): Promise<Traffic[]> {
  const { db, caller, since, restrictions, policyId, decidersOf, uri } = question
  const attached = restrictions.filter((each) => policiesOf(each).includes(policyId))
  const types = restrictionTypes.filter((type) => attached.some((each) => each.type === type))
  const seen = await Promise.all(types.map((type) => listLastSeen(db, caller, type, restrictions, since, maxTried)))
  const traffic: Traffic[] = []
  for (const [index, type] of types.entries()) {
    const sightings = seen[index] as LastSeen[]
    for (const enforced of [true, false]) {
      const using = attached.filter((each) => each.type === type && each.enforced === enforced)
      if (using.length === 0) continue
      // Enforced restrictions decide together. Unenforced ones are evaluated as if they alone were enforced.
      const deciders = await decidersOf(
        enforced
          ? decidersFor(restrictions, type)
          : using.map((each) => ({ enforced: true, policies: policiesOf(each) })),
      )
      const flips = flipsOf(sightings, () => deciders)
      const used_by = using.slice(0, maxListed).map(({ id }) => refTo('ipx', id, uri))
      const known = knownOf(type, sightings)
      traffic.push({ type, by: 'restriction', enforced, used_by, ...known, ...shown(question, type, sightings, flips) })
    }
  }
  return traffic
}

/** One entry for the edges and routes whose module has the policy and refuses, and one for those that only warn. */
export async function impactOnModules(question: Question): Promise<Traffic[]> {
  const { db, caller, policyId, since } = question
  const modules = await listRestrictedBy(db, caller, policyId)
  if (modules.length === 0) return []
  const seen = await listLastSeenAtModules(db, caller, policyId, since, maxTried)
  const traffic: Traffic[] = []
  for (const enforced of [true, false]) {
    const using = modules.filter((each) => each.enforced === enforced)
    if (using.length > 0) traffic.push(await onModules(question, using, seen, enforced))
  }
  return traffic
}

/** The account's restrictions count too where the module refuses. */
async function onModules(
  question: Question,
  modules: Awaited<ReturnType<typeof listRestrictedBy>>,
  seen: readonly SeenAtModule[],
  enforced: boolean,
): Promise<Traffic> {
  const { restrictions, decidersOf, uri } = question
  const refs = new Map(modules.map((row) => [row.id, refsOf(row, uri).target]))
  const setsOf = new Map(modules.map((row) => [row.id, row.policy_ids]))
  const account = enforced ? decidersFor(restrictions, 'endpoints') : []
  const deciders = new Map<Ref, WhatIf>()
  const sightings: (Sighting & { target: Ref })[] = []
  for (const { edgeId, ...sighting } of seen) {
    const [target, set] = [refs.get(edgeId), setsOf.get(edgeId)]
    // It belongs to the other entry, or its module changed between the two queries.
    if (!target || !set) continue
    if (!deciders.has(target)) deciders.set(target, await decidersOf([{ enforced: true, policies: set }, ...account]))
    sightings.push({ ...sighting, target })
  }
  const flips = flipsOf(sightings, ({ target }) => deciders.get(target) as WhatIf)
  const used_by = [...refs.values()].slice(0, maxListed)
  const known = new Set(sightings.filter(({ letIn }) => letIn).map(({ target }) => target))
  return {
    ...{ type: 'endpoints', by: 'module', enforced, used_by },
    let_in_known: known.size > 0 ? 'some' : 'none',
    unknown_at: [...refs.values()].filter((ref) => !known.has(ref)).slice(0, maxListed),
    ...shown(question, 'endpoints', sightings, flips),
  }
}

/** How complete the evidence of allowed addresses is, and which addresses could be newly refused. */
function knownOf(type: RestrictionType, sightings: readonly LastSeen[]): Pick<Traffic, 'let_in_known' | 'unknown_at'> {
  const isKept = (type === 'api' || type === 'dashboard') && sightings.length < maxTried
  const isSome = sightings.some(({ letIn }) => letIn)
  return { let_in_known: isKept ? 'all' : isSome ? 'some' : 'none', unknown_at: [] }
}

function shown(
  { caller }: Question,
  type: RestrictionType,
  sightings: readonly Sighting[],
  { refused, allowed }: Record<'refused' | 'allowed', readonly Sighting[]>,
) {
  const list = (flipped: readonly Sighting[]) => ({
    total: countAddresses(flipped),
    addresses: (caller.role === 'admin' ? flipped.slice(0, maxListed) : []).map(
      ({ address, at, letIn: _, ...seen }) => ({
        ip: formatAddress(address),
        last_seen_at: rfc3339(at),
        ...seen,
      }),
    ),
  })
  return {
    looked_at: lookedAt[type],
    addresses: countAddresses(sightings),
    newly_refused: list(refused),
    newly_allowed: list(allowed),
  }
}

/** An address seen at several edges and routes counts once. */
const countAddresses = (sightings: readonly Sighting[]): number =>
  new Set(sightings.map(({ address }) => formatAddress(address))).size
