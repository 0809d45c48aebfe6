import { hash } from 'node:crypto'
import { type Db, type DbPool, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Difference } from '../../http/dry_run.ts'
import type { Handling, PlannedChange } from '../../http/route.ts'
import { invalidField, Refusal } from '../../kernel/errors.ts'
import { type Id, isId, newUuid, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import type { Extent } from '../../kernel/unusual_change.ts'
import { unusualIn } from '../../operations/unusual_changes.ts'
import type { Base } from './store.ts'

type Request = Pick<Handling<unknown, unknown, unknown>, 'origin' | 'makeChange' | 'settings' | 'routes'>
export type Made = {
  /** The id of the affected resource, for each change. */
  readonly resources: (string | null)[]
  readonly differences: Difference[]
  /** Audit events that the differences come from. */
  readonly events: readonly Uuid[]
  readonly base: Base
  /** Reasons why the changes as a whole need confirmation. */
  readonly unusual: Extent[]
}

/** Makes the changes in order, in the transaction of `db`. Stops at the first refusal. */
export async function makeChanges(
  db: DbPool,
  { origin, makeChange, settings, routes }: Request,
  changes: readonly PlannedChange[],
  { isProposal }: { isProposal: boolean },
): Promise<Made> {
  const before = newUuid()
  const resources: (string | null)[] = []
  let deleted: Base = {}
  for (const [index, planned] of changes.entries())
    try {
      const change = withIds(planned, resources)
      deleted = { ...deleted, ...(await revisionsOf(db, origin, [change], deletions)) }
      const { body } = await makeChange(db, change, isProposal)
      resources.push(idIn(body) ?? change.parameters?.id?.toString() ?? null)
    } catch (error) {
      throw error instanceof Refusal ? refusedChange(error, index, changes, routes) : error
    }
  const found = await differencesSince(db, origin, before, changes)
  const differences = found.map(({ id: _, operation: __, ...difference }) => difference)
  const base = { ...foundBy(found), ...(await revisionsOf(db, origin, changes, ruleSets)), ...deleted }
  const unusual = await unusualIn(db, origin, differences, settings.unusualAbove)
  return { resources, differences, events: found.map(({ id }) => id), base, unusual }
}

const idIn = (body: unknown): string | undefined => (body as { id?: string } | undefined)?.id

function refusedChange(
  refusal: Refusal,
  index: number,
  changes: readonly PlannedChange[],
  routes: Request['routes'],
): Refusal {
  const planned = changes[index] as PlannedChange
  const { operation } = planned
  const { message, code, details, errors } = refusal
  const target = targetOf(planned)
  const what = `${deedOf(routes, operation)}${target === undefined ? '' : `: ${target}`}`
  return new Refusal(
    'ERR_CHANGE_REFUSED',
    `Change ${index + 1} of ${changes.length} (${what}) is refused. ${message}`,
    {
      details: { ...details, change: String(index), operation, code, reason: message },
      errors,
      cause: refusal,
    },
  )
}

/** "update an IP policy"; the operation itself if it is unknown. */
function deedOf(routes: Request['routes'], operation: string): string {
  const [summary = operation] = routes.get(operation)?.summary.split('. ') ?? []
  return summary.charAt(0).toLowerCase() + summary.slice(1)
}

/** The affected resource: its id, or a recognizable field of a new one. */
function targetOf({ parameters = {}, body = {} }: PlannedChange): string | undefined {
  const { id, edge_id } = parameters
  const { description, match, hostports, cidr, address } = body as Record<string, unknown>
  const named = [id, description, match, Array.isArray(hostports) ? hostports[0] : undefined, cidr, address, edge_id]
  const target = named.find((each) => typeof each === 'string' && each !== '')
  return target === undefined ? undefined : String(target).replace(reference, created).slice(0, maxTargetLength)
}
const maxTargetLength = 80
const created = (_: string, index: string): string => `what change ${Number(index) + 1} creates`

const reference = /^\{\{changes\[(\d{1,4})\]\.id\}\}$/

/** Replaces references to earlier changes with the ids that they created. */
function withIds(change: PlannedChange, resources: readonly (string | null)[]): PlannedChange {
  const text = (value: string): string => {
    const index = reference.exec(value)?.[1]
    if (index === undefined) return value
    const id = resources[Number(index)]
    if (id) return id
    throw invalidField('changes', `has ${value}, which is not an earlier change with an id`)
  }
  const replaced = (value: unknown): unknown => {
    if (typeof value === 'string') return text(value)
    if (Array.isArray(value)) return value.map(replaced)
    if (value === null || typeof value !== 'object') return value
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [text(name), replaced(each)]))
  }
  const { parameters, body } = change
  return {
    ...change,
    ...(parameters && { parameters: replaced(parameters) as NonNullable<PlannedChange['parameters']> }),
    ...(body && { body: replaced(body) as object }),
  }
}

type Found = Difference & { readonly id: Uuid; readonly operation: string }

/** Reads the audit events of this transaction. Their ids are later than `before`, so the index finds them. */
const differencesSince = (
  db: Db,
  { accountId, operationId }: Request['origin'],
  before: Uuid,
  changes: readonly PlannedChange[],
): Promise<Found[]> =>
  many(
    db,
    sql`
    select id, operation, resource_id as resource, before, after from audit_events
    where account_id = ${accountId} and operation = any(${[...new Set(changes.map(({ operation }) => operation))]}::text[])
      and id > ${before} and operation_id = ${operationId}
    order by id`,
  )

const ruleSets = /^ip_policies\.\w+_rules$/
const deletions = /^ip_policies\.delete$/

const anyId = /\b[a-z]+_[0-9a-z]{26}\b/g

/**
 * State of each resource before its first change, and before the first change by each further operation: events of a
 * rule set or a module contain only that part. Resources that the set creates get new ids on each run, so they are
 * numbered instead.
 */
function foundBy(found: readonly Found[]): Base {
  const created = new Map(found.filter(({ before }) => !before).map(({ resource }, index) => [resource, `${index}`]))
  const first = new Map<string, string>()
  const seen = new Map<string, object | null>()
  for (const { resource, operation, before } of found) {
    const firstOperation = first.get(resource) ?? operation
    first.set(resource, firstOperation)
    const key = operation === firstOperation ? resource : `${resource} ${operation}`
    if (!seen.has(key)) seen.set(key, before)
  }
  return Object.fromEntries(
    [...seen].flatMap(([key, before]) => {
      const [resource = ''] = key.split(' ')
      if (!before || seen.get(resource) === null) return []
      const text = JSON.stringify(before).replaceAll(anyId, (id) => created.get(id) ?? id)
      return [[key, hash('sha256', text)] as const]
    }),
  )
}

/**
 * Audit events of rule sets contain only the number of rules, so the policy's revision is compared: it rises with every
 * change, and is equal after the same changes unless others changed rules too. Events of deletions contain no rules
 * either, so the revision before them is kept.
 */
async function revisionsOf(
  db: Db,
  { accountId }: Request['origin'],
  changes: readonly PlannedChange[],
  operations: RegExp,
): Promise<Base> {
  const named = changes
    .filter(({ operation }) => operations.test(operation))
    .flatMap(({ parameters }) => (isId('ipp', String(parameters?.id)) ? [parameters?.id as Id<'ipp'>] : []))
  if (named.length === 0) return {}
  const rows = await many<{ id: Uuid; revision: number }>(
    db,
    sql`select id, revision from ip_policies where account_id = ${accountId} and id = any(${named.map(toUuid)})`,
  )
  return Object.fromEntries(rows.map(({ id, revision }) => [`${toId('ipp', id)} rules`, String(revision)]))
}

/** Entries of `base` that differ in `found`. A resource missing from `base` gets a value that never matches. */
export const changedIn = (base: Base, found: Base): Base =>
  Object.fromEntries(
    [...Object.keys(base), ...Object.keys(found)]
      .filter((key) => base[key] !== found[key])
      .map((key) => [key, base[key] ?? 'nothing']),
  )

/** Ids of the resources that differ between the two. */
export const conflictsOf = (base: Base, found: Base): string[] => [
  ...new Set(Object.keys(changedIn(base, found)).map((key) => key.replace(/ .*/, ''))),
]
