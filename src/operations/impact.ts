import type { LastSeen } from '../access/evidence/last_seen.ts'
import { impactOf, type PlaceImpact, policiesLeft, type Unknown } from '../access/impact/impact.ts'
import { loadPlaces } from '../access/impact/places.ts'
import { type Changed, isEmpty, scopeOf } from '../access/impact/scope.ts'
import type { DbPool } from '../db/pool.ts'
import { rehearse } from '../db/transaction.ts'
import type { EdgeView } from '../http/edges.ts'
import { type ChangeImpact, maxListed, type PlaceImpact as Shown } from '../http/impact.ts'
import type { Caller } from '../identity/caller.ts'
import { rfc3339 } from '../kernel/clock.ts'
import { toId } from '../kernel/ids.ts'
import { formatAddress } from '../kernel/ip/address.ts'
import { cellsOf } from './placement.ts'

export type Asking = {
  readonly caller: Pick<Caller, 'accountId' | 'role'>
  readonly now: number
  readonly edges: EdgeView
  readonly uri: (path: string) => string
}

const weekMs = 7 * 24 * 60 * 60 * 1_000

/**
 * Makes a change, rolls it back, and compares which addresses are let in with and without it. Derives the affected
 * places from the audit events, so it works for every operation and costs nothing for those that decide about no
 * address.
 */
export async function rehearseForImpact<Done extends { readonly differences: readonly Changed[] }>(
  db: DbPool,
  { caller, now, edges, uri }: Asking,
  work: (db: DbPool) => Promise<Done>,
): Promise<Done & { impact: ChangeImpact }> {
  const { accountId } = caller
  // Nested, so that the outer transaction can then read the state before the change.
  return rehearse(db, async (outer) => {
    const { done, scope, left } = await rehearse(outer, async (inner) => {
      const done = await work(inner)
      const scope = scopeOf(done.differences)
      if (isEmpty(scope)) return { done, scope }
      const places = await loadPlaces(inner, accountId, scope)
      return { done, scope, left: { places, policies: await policiesLeft(inner, { accountId, scope, now }, places) } }
    })
    const since = now - weekMs
    const places: PlaceImpact[] = []
    let isCut = false
    if (left) {
      const areNodesSilent = await someAreSilent(outer, accountId, edges)
      const question = { db: outer, accountId, scope, since, now, areNodesSilent }
      const impact = await impactOf(question, await loadPlaces(outer, accountId, scope), left)
      places.push(...impact.places)
      isCut = impact.isCut
    }
    return { ...done, impact: shown(places, { caller, since, isCut, uri }) }
  })
}

/** Whether a known node that serves the account is silent, or no node can report. */
async function someAreSilent(db: DbPool, accountId: Caller['accountId'], edges: EdgeView): Promise<boolean> {
  if (!edges.isConnected()) return true
  const cells = new Set((await cellsOf(db, accountId)).map(({ name }) => name))
  return edges.all().some(({ cell, live }) => cells.has(cell) && !live)
}

const because: Readonly<Record<Unknown, string>> = {
  agents: 'Which addresses agents ask about is not kept.',
  new: 'It is new: no request has reached it.',
  new_in_place: 'It is new, and gets requests that another route has now. Which addresses send them is not known.',
  moved: 'Its path, host names or cells change. Which addresses would use the new ones is not known.',
  not_reported: 'No edge node has reported an address that it let in there in the last 7 days.',
  silent_nodes: 'Not all edge nodes report now. Addresses that the others let in may be missing.',
  too_many: 'More addresses were seen than are kept. Only the latest are evaluated.',
}

function shown(
  places: readonly PlaceImpact[],
  { caller, since, isCut, uri }: Pick<Asking, 'caller' | 'uri'> & { since: number; isCut: boolean },
): ChangeImpact {
  const total = (of: (place: PlaceImpact) => readonly LastSeen[]) => countOf(places.flatMap(of))
  const sorted = places.toSorted(
    (a, b) =>
      b.newlyRefused.length - a.newlyRefused.length ||
      b.newlyAllowed.length - a.newlyAllowed.length ||
      b.newlyWarned.length - a.newlyWarned.length,
  )
  return {
    since: rfc3339(since),
    newly_refused: total(({ newlyRefused }) => newlyRefused),
    newly_allowed: total(({ newlyAllowed }) => newlyAllowed),
    newly_warned: total(({ newlyWarned }) => newlyWarned),
    unknown: places.filter(({ evidence }) => evidence !== 'complete').length + (isCut ? 1 : 0),
    places: sorted.slice(0, maxListed).map((place) => shownPlace(place, caller, uri)),
    more_places: Math.max(0, places.length - maxListed),
  }
}

const countOf = (seen: readonly LastSeen[]): number => new Set(seen.map(({ address }) => formatAddress(address))).size

function shownPlace(place: PlaceImpact, { role }: Asking['caller'], uri: Asking['uri']): Shown {
  const list = (seen: readonly LastSeen[]) => ({
    total: seen.length,
    addresses: (role === 'admin' ? seen.slice(0, maxListed) : []).map(({ address, at }) => ({
      ip: formatAddress(address),
      last_seen_at: rfc3339(at),
    })),
  })
  return {
    type: place.type,
    ...namesOf(place, uri),
    becomes: place.becomes,
    evidence: place.evidence,
    unknown_because: place.unknown ? because[place.unknown] : null,
    addresses: place.seen.length,
    newly_refused: list(place.newlyRefused),
    newly_allowed: list(place.newlyAllowed),
    newly_warned: list(place.newlyWarned),
  }
}

function namesOf({ target }: PlaceImpact, uri: Asking['uri']): Pick<Shown, 'id' | 'uri'> {
  if (!target) return { id: null, uri: null }
  const id = toId(target.parent_id ? 'edghtsrt' : 'edgtcp', target.id)
  const path = target.parent_id ? `/edges/https/${toId('edghts', target.parent_id)}/routes/${id}` : `/edges/tcp/${id}`
  return { id, uri: uri(path) }
}
