// What undoing an event has to leave: worked out from what was there and the event alone, without the code that undoes.
import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import type { Configuration, Shown } from './configuration.ts'

export type Event = { id: string; operation: string; resource_id: string; before: Shown | null; after: Shown | null }

const within = ({ before, after }: Event) => before?.edge_id ?? after?.edge_id

/** The list that has it, which for a route is in its edge. */
function listOf(configuration: Configuration, event: Event): Shown[] | undefined {
  const edges = configuration['https_edges.list'] ?? []
  if (!event.operation.startsWith('https_edge_routes.'))
    return configuration[`${event.operation.replace(/\..*/, '')}.list`]
  const isIt = (edge: Shown) =>
    edge.id === within(event) || (edge.routes as Shown[]).some(({ id }) => id === event.resource_id)
  return edges.find(isIt)?.routes as Shown[] | undefined
}

/** The fields that the event changed, those aside that follow from others. */
export const changedBy = ({ before, after }: Event): string[] =>
  [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].filter(
    (name) => !isDeepStrictEqual(before?.[name], after?.[name]),
  )

const isWhole = (fields: Shown | null) => fields === null || fields.id !== undefined

export function withoutEvent(configuration: Configuration, event: Event): Configuration {
  const changed = structuredClone(configuration)
  const list = listOf(changed, event) ?? assert.fail(`${event.operation} ${event.resource_id}`)
  const at = list.findIndex(({ id }) => id === event.resource_id)
  if (!event.before && isWhole(event.after)) list.splice(at, 1)
  else if (!event.after && isWhole(event.before)) list.unshift(event.before as Shown)
  else {
    const it = list[at] ?? assert.fail(`${event.resource_id} is not there`)
    for (const field of changedBy(event)) {
      const former = event.before?.[field]
      if (former !== undefined) it[field] = former
      // A module that was not set is null; a text is left out.
      else if (isWhole(event.after) && isWhole(event.before)) delete it[field]
      else Reflect.set(it, field, null)
    }
  }
  return changed
}

/** Whether something is in the way, as far as the configuration shows it. */
export function isInTheWay(configuration: Configuration, event: Event): boolean {
  const list = listOf(configuration, event)
  const it = list?.find(({ id }) => id === event.resource_id)
  if (!event.before && isWhole(event.after)) {
    const rest = JSON.stringify(Object.values(configuration).map((items) => items.filter((each) => each !== it)))
    const isOther = (name: string) => !isDeepStrictEqual(it?.[name], event.after?.[name])
    const fields = Object.keys({ ...it, ...event.after }).filter((name) => !/^(status|expired)$/.test(name))
    return !it || fields.some(isOther) || rest.includes(event.resource_id)
  }
  if (refersToGone(configuration, event)) return true
  if (!event.after && isWhole(event.before)) return !list || list.some((other) => takesPlaceOf(other, event.before))
  return !it || changedBy(event).some((name) => !isDeepStrictEqual(it[name] ?? null, event.after?.[name] ?? null))
}

function refersToGone(configuration: Configuration, { resource_id, before }: Event): boolean {
  const all = JSON.stringify(configuration)
  const own = new Set([resource_id, ...((before?.routes as Shown[] | undefined) ?? []).map(({ id }) => id)])
  const ids = JSON.stringify(before).match(/[a-z]+_[0-9a-z]{26}/g) ?? []
  return ids.some((id) => !own.has(id) && !all.includes(id))
}

/** A range is once in a policy, and a match once in an edge. */
const takesPlaceOf = (other: Shown, former: Shown | null): boolean =>
  ['cidr', 'match'].some((name) => former?.[name] !== undefined && other[name] === former[name]) &&
  isDeepStrictEqual(other.ip_policy, former?.ip_policy) &&
  other.match_type === former?.match_type
