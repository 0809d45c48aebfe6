import { isDeepStrictEqual } from 'node:util'
import type { PlannedChange, Route } from '../../http/route.ts'
import { Refusal } from '../../kernel/errors.ts'
import { type IdPrefix, isId, toId } from '../../kernel/ids.ts'
import type { AuditEventRow } from '../audit_events/view.ts'
import { bodyFor, type Routes, type Undo, undoOf } from './undo.ts'

type Json = Readonly<Record<string, unknown>>
export type Event = Pick<AuditEventRow, 'id' | 'operation' | 'resource_id' | 'before' | 'after'>

/** One change that undoes part of an event. */
export type Step = {
  readonly change: PlannedChange
  readonly event: Event
  /** The event's resource. It may be created again under another id. */
  readonly resource: string
  /** Fields that must still have the event's result, and their values. */
  readonly found: readonly string[]
  readonly after: Json
  /** Fields that must be restored, and their values. */
  readonly left: readonly string[]
  readonly before: Json
}
export type Steps = {
  readonly steps: readonly Step[]
  /** Position of the change that recreates each deleted resource. */
  readonly createdAgain: ReadonlyMap<string, number>
}

export const notReversible = ({ id, operation }: Pick<Event, 'id' | 'operation'>, reason: string): Refusal =>
  new Refusal('ERR_NOT_REVERSIBLE', `${operation} (${toId('ev', id)}) cannot be undone. ${reason}`, {
    details: { event: toId('ev', id), operation },
  })

/** How to undo an event. Throws a refusal if that is impossible. */
export function undoOfEvent(routes: Routes, event: Event): Undo {
  const undo = undoOf(routes, event.operation)
  if (typeof undo === 'string') throw notReversible(event, undo)
  const { id } = routes.get(event.operation)?.params ?? {}
  // For example the key of an identity, which is deleted with it.
  if (id && !isId(id as IdPrefix, event.resource_id))
    throw notReversible(event, `${event.resource_id} was changed along with something else.`)
  return undo
}

/**
 * Changes that undo the events, which come newest first. Each requires that the resource has not been changed since its
 * event.
 */
export function stepsOf(routes: Routes, events: readonly Event[], edgeOf: ReadonlyMap<string, string>): Steps {
  const steps: Step[] = []
  const createdAgain = new Map<string, number>()
  const add = (step: Omit<Step, 'change'> & { route: Route; body?: object }) => {
    const { route, body, ...rest } = step
    const here = (name: string) => (name === 'id' ? rest.resource : (edgeOf.get(rest.resource) ?? ''))
    const parameters = Object.fromEntries(Object.keys(route.params ?? {}).map((name) => [name, here(name)]))
    const change = {
      operation: route.operation,
      ...(Object.keys(parameters).length > 0 && { parameters }),
      ...(body && { body }),
    }
    steps.push({ ...rest, change: pointedAtNew(change, createdAgain) as PlannedChange })
  }
  const create = (event: Event, resource: string, before: Json, undo: Extract<Undo, { kind: 'deleted' }>) => {
    add({
      ...{ event, resource, found: [], after: {}, left: undo.fields, before },
      ...{ route: undo.by, body: bodyFor(undo.by, undo, before) },
    })
    createdAgain.set(resource, steps.length - 1)
    // Recreates them in their original order: lists are newest first, and responses show that order.
    for (const { field, undo: ofPart } of undo.parts)
      for (const part of (before[field] as (Json & { id: string })[] | undefined)?.toReversed() ?? [])
        create(event, part.id, part, ofPart)
  }
  for (const event of events) {
    const undo = undoOfEvent(routes, event)
    const [before, after] = [event.before ?? {}, event.after ?? {}]
    const about = { event, resource: event.resource_id, before, after }
    if (undo.kind === 'deleted') create(event, event.resource_id, before, undo)
    else if (undo.kind === 'created')
      add({ ...about, found: [...undo.fields, ...undo.parts], left: [], route: undo.by })
    else if (undo.kind === 'module') {
      const { name, replace, remove, shape } = undo
      const part = before[name] as Json | undefined
      const whole = { shape, fields: Object.keys(shape.properties) }
      const by = part ? { route: replace, body: bodyFor(replace, whole, part) } : { route: remove }
      add({ ...about, found: [name], left: [name], ...by })
    } else {
      const changed = undo.fields.filter((field) => !isDeepStrictEqual(before[field], after[field]))
      if (changed.length === 0) throw notReversible(event, 'It changed nothing that a request can set.')
      const body = bodyFor(undo.by, { ...undo, fields: changed }, before)
      add({ ...about, found: changed, left: changed, route: undo.by, body })
    }
  }
  return { steps, createdAgain }
}

/** Replaces ids of deleted resources with references to the change that recreates them. */
function pointedAtNew(value: unknown, createdAgain: Steps['createdAgain']): unknown {
  const text = (each: string) => (createdAgain.has(each) ? `{{changes[${createdAgain.get(each)}].id}}` : each)
  if (typeof value === 'string') return text(value)
  if (Array.isArray(value)) return value.map((each) => pointedAtNew(each, createdAgain))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [text(name), pointedAtNew(each, createdAgain)]))
}

/** The edges of routes, if the events name them. */
export function edgesIn(events: readonly Event[]): Map<string, string> {
  const routes = events.flatMap(({ before, after }) =>
    [before, after].flatMap((shown) => [shown, ...((shown?.routes as Json[] | undefined) ?? [])]),
  )
  return new Map(
    routes.flatMap((shown) =>
      typeof shown?.edge_id === 'string' && typeof shown.id === 'string' ? [[shown.id, shown.edge_id] as const] : [],
    ),
  )
}
