import type { IncomingMessage } from 'node:http'
import type { DbPool } from '../db/pool.ts'
import type { Caller } from '../identity/caller.ts'
import { everything } from '../identity/grant.ts'
import type { Origin } from '../identity/origin.ts'
import { invalidField, Refusal } from '../kernel/errors.ts'
import { type Id, newId } from '../kernel/ids.ts'
import { checkIds, checkRepeatedId, permit, permitRole } from './checks.ts'
import { maxJsonBytes } from './input/body.ts'
import { parseQuery, type Validator, validator } from './input/validate.ts'
import { type Repeated, splitReadOnly } from './read_only.ts'
import type { RequestFacts } from './request_facts.ts'
import {
  canBePlanned,
  type Handling,
  type PlannedChange,
  type Result,
  type Route,
  type ServiceRequest,
} from './route.ts'
import type { Service } from './service.ts'
import { type DropDefaults, dropDefaults } from './vendor_clients.ts'
import { Closed } from './wire.ts'

export type PreparedRoute = Route & {
  readonly checkQuery: Validator
  readonly checkBody?: Validator
  readonly dropDefaults: DropDefaults
}
export type Incoming = {
  readonly service: Service
  readonly route: PreparedRoute
  /** By operation. */
  readonly routes: ReadonlyMap<string, PreparedRoute>
  readonly operationId: Id<'op'>
  readonly raw: IncomingMessage
  readonly params: Record<string, string>
  readonly query: Record<string, unknown>
  readonly facts: RequestFacts
}
/** On whose behalf a handler runs: a request, or the service itself for work that was requested earlier. */
export type Acting = {
  readonly service: Pick<Service, 'clock' | 'evaluate' | 'settings' | 'edges' | 'changes' | 'domains' | 'publicUrl'>
  readonly routes: Incoming['routes']
  readonly operationId: Id<'op'>
  readonly facts: Pick<RequestFacts, 'sourceIp' | 'statusUnread' | 'urgent'>
  /** The service acts by itself: no caller could lock themselves out, and no key is involved. */
  readonly isAutomatic?: true
}
/** Validated input of an operation. */
export type Sent = {
  readonly params: Record<string, Id>
  readonly query: Record<string, unknown>
  readonly body: unknown
  readonly repeated: Repeated
  readonly ifMatch?: string | undefined
  readonly idempotencyKey?: string | undefined
  readonly breakGlass?: string | undefined
  readonly isRepeatable?: true
  /** The calling operation decides whether the whole change is unusual. */
  readonly isPart: boolean
}

const NoQuery = Closed({})

export function prepare(route: Route): PreparedRoute {
  if ((route.bodyLimitBytes ?? 0) > maxJsonBytes)
    throw new Error(`${route.operation} reads JSON of more than ${maxJsonBytes} bytes`)
  return {
    ...route,
    checkQuery: validator(route.query ?? NoQuery, 'query'),
    dropDefaults: dropDefaults(route),
    ...(route.body && { checkBody: validator(route.body, 'body') }),
  }
}

export function checkedQuery(route: PreparedRoute, query: Record<string, unknown>): Record<string, unknown> {
  const parsed = parseQuery(route.query ?? NoQuery, query)
  route.checkQuery(parsed)
  return parsed
}

/**
 * Converts the input of an operation into a change of a change set. Leaves out parameters that only control how it is
 * applied.
 */
export function toPlanned(
  { operation }: Route,
  { params, query, ifMatch }: Pick<Sent, 'params' | 'query' | 'ifMatch'>,
  body: object | undefined,
): PlannedChange {
  const own = Object.entries(query).filter(([name]) => !notInSets.includes(name))
  const parameters = { ...params, ...Object.fromEntries(own) } as NonNullable<PlannedChange['parameters']>
  return {
    operation,
    ...(Object.keys(parameters).length > 0 && { parameters }),
    ...(body && { body }),
    ...(ifMatch !== undefined && { if_match: ifMatch }),
  }
}

export const nothingRepeated: Repeated = new Map()

export const splitBody = ({ acceptsResponse, body, response }: Route, sent: unknown) =>
  acceptsResponse ? splitReadOnly(body, response, sent) : { body: sent, repeated: nothingRepeated }

export const originOf = (
  { operationId, facts, isAutomatic }: Acting,
  { operation }: Pick<Route, 'operation'>,
  caller: Caller,
): Origin => ({
  ...{ accountId: caller.accountId, operation, operationId },
  ...(!isAutomatic && { caller }),
  ...(facts.sourceIp !== undefined && { sourceIp: facts.sourceIp }),
  ...(facts.urgent && { urgent: facts.urgent.reason }),
})

/** Prepared routes by operation. */
export const prepareAll = (routes: readonly Route[]): Incoming['routes'] =>
  new Map(routes.map((route) => [route.operation, prepare(route)]))

export function handleOn(
  db: DbPool,
  acting: Acting,
  route: Route,
  caller: Caller,
  { ifMatch, idempotencyKey, breakGlass, isPart, ...sent }: Sent,
): Promise<Result<unknown>> {
  const { service, facts } = acting
  const handling: Handling<Sent['params'], Sent['query'], unknown> = {
    db,
    clock: service.clock,
    evaluate: service.evaluate,
    settings: service.settings,
    edges: service.edges,
    noteStatusUnread: (reason) => {
      facts.statusUnread = reason
    },
    domains: service.domains,
    makeChange: (on, change, isProposal) => makeChange(on, acting, caller, change, isProposal),
    routes: acting.routes,
    byService: (on, operation) => requestByService(acting, on, caller, operation),
    uri: (path) => service.publicUrl + path,
    origin: originOf(acting, route, caller),
    caller,
    confirmation: isPart ? 'judged_as_a_whole' : sent.query.confirm === true ? 'given' : 'missing',
    ...sent,
    ...(ifMatch !== undefined && { ifMatch }),
    ...(idempotencyKey !== undefined && { idempotencyKey }),
    ...(breakGlass !== undefined && { breakGlass }),
  }
  return route.handle(handling)
}

/** Acts in an account on behalf of the service, for work that `ownerId` requested. */
export function requestByService(
  { service, routes, operationId }: Omit<Acting, 'facts'>,
  db: DbPool,
  { accountId, ownerId }: Pick<Caller, 'accountId' | 'ownerId'>,
  operation: string,
): ServiceRequest {
  const acting: Acting = { service, routes, operationId, facts: {}, isAutomatic: true }
  const caller: Caller = {
    ...{ accountId, ownerId, role: 'admin', scopes: [everything], allowedCidrs: [], traffic: 'api' },
    ...{ apiKeyId: newId('ak'), apiKeyExpiresAt: null, apiKeyRotatedAt: null, tokenReplaced: false },
    ...{ approvalRequiredFor: [], requestsPerMinute: null, policyRevision: 0, restricted: false },
  }
  return {
    ...{ db, caller, routes, clock: service.clock, settings: service.settings },
    origin: originOf(acting, { operation }, caller),
    makeChange: (on, change, isProposal) => makeChange(on, acting, caller, change, isProposal),
    uri: (path) => service.publicUrl + path,
  }
}

/** Makes a change that another request contains, after the same checks in the same order. */
async function makeChange(
  db: DbPool,
  acting: Acting,
  caller: Caller,
  change: PlannedChange,
  isProposal: boolean,
): Promise<Result<unknown>> {
  const route = acting.routes.get(change.operation)
  if (!route || !canBePlanned(route)) throw notForChangeSets(change.operation)
  const { body, repeated } = splitBody(route, bodyOf(route, change))
  const given = Object.entries(change.parameters ?? {}).map(([name, value]) => [name, String(value)] as const)
  const isInPath = ([name]: readonly [string, string]) => Object.hasOwn(route.params ?? {}, name)
  for (const name of notInSets)
    if (change.parameters?.[name] !== undefined)
      throw invalidField(name, 'belongs to the request that applies the change set')
  const query = checkedQuery(route, Object.fromEntries(given.filter((each) => !isInPath(each))))
  route.checkBody?.(body)
  route.check?.(body, acting.service.settings, false)
  const params = Object.fromEntries(given.filter(isInPath))
  checkRepeatedId(body, params)
  if (isProposal) permitRole(route, caller)
  else permit(route, caller)
  return handleOn(db, acting, route, caller, {
    ...{
      params: checkIds(route.params ?? {}, params),
      query: lockoutAllowed(acting, route, query),
      body,
      repeated,
      ifMatch: change.if_match,
      isPart: true,
    },
  })
}

const notInSets = ['dry_run', 'wait', 'confirm', 'ignore_access_tests', 'break_glass', 'rollout']

const lockoutAllowed = ({ isAutomatic }: Acting, route: Route, query: Sent['query']): Sent['query'] =>
  isAutomatic && Object.hasOwn(route.query?.properties ?? {}, 'allow_self_lockout')
    ? { ...query, allow_self_lockout: true }
    : query

function bodyOf(route: Route, { body }: PlannedChange): object | undefined {
  if (body !== undefined && !route.body) throw invalidField('body', 'must be omitted: this operation has none')
  return route.body ? (body ?? {}) : undefined
}

const notForChangeSets = (operation: string): Refusal =>
  new Refusal(
    'ERR_INVALID_FIELD',
    `operation ${operation} cannot be part of a change set. Only changes without a secret can.`,
    { details: { field: 'operation' } },
  )
