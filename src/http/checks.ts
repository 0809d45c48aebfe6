import type { IncomingMessage } from 'node:http'
import { type Caller, roles, tokenReplaced } from '../identity/caller.ts'
import { everything, isUnlimited, mayCall } from '../identity/grant.ts'
import { forbidden, invalidField, notFound, Refusal } from '../kernel/errors.ts'
import { type Id, isId, isUuidV7 } from '../kernel/ids.ts'
import { leastRole, type ParamKind, type Params, type Route } from './route.ts'

type Headers = NodeJS.Dict<string[]>

const oneHost = (): Refusal => new Refusal('ERR_MALFORMED_REQUEST', 'Send exactly one Host header.')

/** Malformed requests that the HTTP parser accepts. */
export function faultOfForm({ httpVersion, headersDistinct, url = '' }: IncomingMessage): Refusal | undefined {
  const { host, expect = [] } = headersDistinct
  // Load balancers probe with HTTP/1.0, which has no Host.
  if (!host && httpVersion !== '1.0') return oneHost()
  if (expect.some((value) => value.toLowerCase() !== '100-continue'))
    return new Refusal('ERR_EXPECTATION', "The only supported expectation is 'Expect: 100-continue'.")
  if (url.includes('#'))
    return new Refusal('ERR_MALFORMED_REQUEST', 'The request target contains #. Leave the fragment out, or send %23.')
  return undefined
}

export function checkHost({ host }: Headers): void {
  if (host?.length !== 1) throw oneHost()
}

export function checkVersion(headers: Headers, names: readonly string[]): void {
  const values = names.flatMap((name) => headers[name] ?? [])
  const eachOnce = names.every((name) => (headers[name]?.length ?? 0) <= 1)
  if (values.length && eachOnce && values.every((value) => value === '2')) return
  throw new Refusal('ERR_SERVICE_VERSION', "Send the header 'Service-Version: 2' exactly once.")
}

/** Generated clients repeat the id of the path in the body. Both must be equal. */
export function checkRepeatedId(body: unknown, params: Record<string, string>): void {
  for (const name of ['edge_id', 'id']) {
    const repeated = (body as Record<string, unknown> | undefined)?.[name]
    if (repeated !== undefined && params[name] !== undefined && repeated !== params[name])
      throw invalidField(name, 'must equal the id in the path, or be omitted')
  }
}

const viewersOnlyRead = 'Viewers can read, but cannot change anything. Ask a member or an admin.'

/** Checks that need only the route and the caller. */
export function permit(route: Route, caller: Caller): void {
  const { operation, managesKeys, signsIn } = route
  permitRole(route, caller)
  if (!mayCall(caller, operation)) throw scopeMissing(operation)
  // A session has its owner's rights, so a key with narrower scopes could sign in to escape them.
  if (signsIn && !isUnlimited(caller)) throw signInNeedsAll(operation)
  if (caller.tokenReplaced && (managesKeys || signsIn)) throw tokenReplaced(caller)
}

export function permitRole(route: Route, caller: Caller): void {
  const needed = leastRole(route)
  if (roles.indexOf(caller.role) > roles.indexOf(needed))
    throw forbidden(needed === 'admin' ? 'Only admins can do this.' : viewersOnlyRead)
}

export function isPermitted(route: Route, caller: Caller): boolean {
  try {
    permit(route, caller)
    return true
  } catch (error) {
    if (error instanceof Refusal) return false
    throw error
  }
}

const scopeMissing = (operation: string): Refusal =>
  new Refusal(
    'ERR_SCOPE',
    `The scopes of this API key do not include ${operation}. Use a key that has this scope, or ask an admin or the owner of the key to add it.`,
    { details: { operation, missing: operation } },
  )

const signInNeedsAll = (operation: string): Refusal =>
  new Refusal(
    'ERR_SCOPE',
    'Only a key with the scope * can sign in, because a session has all rights of its owner. Use such a key.',
    { details: { operation, missing: everything } },
  )

/**
 * Not part of a schema: a malformed id must get the same response as a missing one, after all other checks. The last id
 * names the resource, so the 404 always refers to that one.
 */
export function checkIds(expected: Params, given: Record<string, string>): Record<string, Id> {
  const kinds = Object.entries(expected)
  const fits = (kind: ParamKind, text = '') =>
    kind === 'number'
      ? /^\d{1,15}$/.test(text)
      : kind === 'request'
        ? isUuidV7(text) || isId('op', text)
        : isId(kind, text)
  if (kinds.every(([name, kind]) => fits(kind, given[name]))) return given as Record<string, Id>
  const target = kinds.at(-1)?.[1] ?? 'number'
  throw target === 'number' ? new Refusal('ERR_NOT_FOUND', 'The generation must be a whole number.') : notFound(target)
}
