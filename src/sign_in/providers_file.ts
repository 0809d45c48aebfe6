import { readFileSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { parse } from 'yaml'
import { type Role, roles } from '../identity/caller.ts'
import { ConfigError } from '../kernel/config_error.ts'
import { isHostName } from '../kernel/edge/hostport.ts'
import { isThisMachine, type Provider } from './provider.ts'

const fields = [
  'name',
  'title',
  'account',
  'issuer',
  'client_id',
  'client_secret_file',
  'scopes',
  'create_users',
  'link_by_email',
  'allowed_domains',
  'allowed_groups',
  'groups_claim',
  'roles_claim',
  'roles',
  'default_role',
  'clock_tolerance_seconds',
]

type Fields = Record<string, unknown>
const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Reads the operator's file of providers, YAML or JSON. Reports all faults at once. */
export function readProviders(file: string): readonly Provider[] {
  if (file === '') return []
  const faults: string[] = []
  const found = listIn(file)
  const providers = found.map((entry, index) => readProvider(entry, `providers[${index}]`, file, faults))
  const names = providers.map(({ name }) => name)
  for (const name of new Set(names.filter((name, index) => name !== '' && names.indexOf(name) !== index)))
    faults.push(`two providers are named ${name}`)
  if (faults.length) throw new ConfigError(`GATEHOUSE_OIDC_FILE: ${file} has faults:\n  ${faults.join('\n  ')}`)
  return providers
}

function listIn(file: string): unknown[] {
  let whole: unknown
  try {
    whole = parse(readFileSync(file, 'utf8'))
  } catch (cause) {
    throw new ConfigError(`GATEHOUSE_OIDC_FILE: ${file} cannot be read: ${(cause as Error).message}`, { cause })
  }
  if (isFields(whole) && Array.isArray(whole.providers) && Object.keys(whole).length === 1) return whole.providers
  throw new ConfigError(`GATEHOUSE_OIDC_FILE: ${file} must have one field, providers, with a list`)
}

function readProvider(entry: unknown, where: string, file: string, faults: string[]): Provider {
  const given: Fields = isFields(entry) ? entry : {}
  const fault = (field: string, what: string) => faults.push(`${where}.${field} ${what}`)
  if (!isFields(entry)) faults.push(`${where} must be an object`)
  for (const field of Object.keys(given)) if (!fields.includes(field)) fault(field, 'is not known')

  const text = (field: string, fallback?: string): string => {
    const value = given[field] ?? fallback
    if (typeof value === 'string' && value.trim() !== '' && Buffer.byteLength(value) <= 2_048) return value
    fault(field, given[field] === undefined ? 'is missing' : 'must be a text')
    return ''
  }
  const flag = (field: string): boolean => {
    if (given[field] !== undefined && typeof given[field] !== 'boolean') fault(field, 'must be true or false')
    return given[field] === true
  }
  const texts = (field: string, value: unknown = given[field]): string[] => {
    if (value === undefined) return []
    if (Array.isArray(value) && value.every((one) => typeof one === 'string' && one !== '')) return value
    fault(field, 'must be a list of texts')
    return []
  }

  const name = text('name')
  if (name && !/^[a-z0-9][a-z0-9-]{0,62}$/.test(name))
    fault('name', 'must be at most 63 lowercase letters, digits and hyphens')
  const provider: Provider = {
    name,
    title: text('title', name || 'x'),
    account: text('account'),
    issuer: text('issuer'),
    clientId: text('client_id'),
    clientSecret:
      given.client_secret_file === undefined ? undefined : secretIn(text('client_secret_file'), file, fault),
    scopes: given.scopes === undefined ? ['openid', 'email', 'profile'] : texts('scopes'),
    createUsers: flag('create_users'),
    linkByEmail: flag('link_by_email'),
    allowedDomains: texts('allowed_domains').map((domain) => domain.toLowerCase()),
    allowedGroups: texts('allowed_groups'),
    groupsClaim: text('groups_claim', 'groups'),
    rolesClaim: text('roles_claim', typeof given.groups_claim === 'string' ? given.groups_claim : 'groups'),
    roles: rolesOf(given.roles, fault, texts),
    defaultRole: defaultRoleOf(given.default_role, fault),
    clockToleranceSeconds: toleranceOf(given.clock_tolerance_seconds, fault),
  }
  checkTogether(provider, fault)
  return provider
}

type Fault = (field: string, what: string) => unknown

function secretIn(path: string, file: string, fault: Fault): string {
  if (path === '') return ''
  try {
    const secret = readFileSync(isAbsolute(path) ? path : join(file, '..', path), 'utf8').trim()
    if (secret === '') fault('client_secret_file', `is ${path}, which is empty`)
    return secret
  } catch {
    fault('client_secret_file', `is ${path}, which cannot be read`)
    return ''
  }
}

function rolesOf(value: unknown, fault: Fault, texts: (field: string, value: unknown) => string[]): Provider['roles'] {
  const given: Fields = isFields(value) ? value : {}
  if (value !== undefined && !isFields(value)) fault('roles', 'must be an object')
  for (const role of Object.keys(given))
    if (!roles.some((known) => known === role)) fault(`roles.${role}`, `is not one of ${roles.join(', ')}`)
  return {
    admin: texts('roles.admin', given.admin),
    member: texts('roles.member', given.member),
    viewer: texts('roles.viewer', given.viewer),
  }
}

function defaultRoleOf(value: unknown, fault: Fault): Role | undefined {
  const role = roles.find((known) => known === value)
  if (value !== undefined && !role) fault('default_role', `must be one of ${roles.join(', ')}`)
  return role
}

function toleranceOf(value: unknown, fault: Fault): number {
  if (value === undefined) return 30
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 300) return value
  fault('clock_tolerance_seconds', 'must be a whole number from 0 to 300')
  return 30
}

/** Checks that involve several fields. */
function checkTogether(provider: Provider, fault: Fault): void {
  const { issuer, scopes, allowedDomains, allowedGroups, linkByEmail } = provider
  if (issuer && !isIssuer(issuer))
    fault('issuer', 'must be an https URL without query and fragment; http is allowed for this machine only')
  if (!scopes.includes('openid')) fault('scopes', 'must include openid')
  for (const domain of allowedDomains)
    if (!isHostName(domain)) fault('allowed_domains', `has ${JSON.stringify(domain)}, which is not a domain`)
  if (allowedDomains.length === 0 && allowedGroups.length === 0)
    fault('allowed_domains', 'or allowed_groups must say who may sign in')
  if (linkByEmail && allowedDomains.length === 0)
    fault('link_by_email', 'needs allowed_domains: other domains must not reach existing users')
  if (
    provider.createUsers &&
    !provider.defaultRole &&
    Object.values(provider.roles).every(({ length }) => length === 0)
  )
    fault('create_users', 'needs roles or default_role, which say what a new user may do')
}

function isIssuer(issuer: string): boolean {
  const url = URL.parse(issuer)
  if (!url || url.search || url.hash || url.username) return false
  return url.protocol === 'https:' || (url.protocol === 'http:' && isThisMachine(url))
}
