import type { Role } from '../identity/caller.ts'

/** A provider from the operator's file. It signs people into exactly one account. */
export type Provider = {
  /** Identifies it in URLs, the audit log and metrics. */
  readonly name: string
  /** Label of its button. */
  readonly title: string
  /** Name or id of the account. */
  readonly account: string
  readonly issuer: string
  readonly clientId: string
  /** Undefined: a public client, protected by PKCE alone. */
  readonly clientSecret: string | undefined
  readonly scopes: readonly string[]
  readonly createUsers: boolean
  readonly linkByEmail: boolean
  readonly allowedDomains: readonly string[]
  readonly allowedGroups: readonly string[]
  readonly groupsClaim: string
  readonly rolesClaim: string
  /** Values of the roles claim for each role. Empty: Gatehouse manages roles. */
  readonly roles: Readonly<Record<Role, readonly string[]>>
  /** Role of users without one from a claim. Undefined: they are refused. */
  readonly defaultRole: Role | undefined
  readonly clockToleranceSeconds: number
}

/** Hosts for which http is as safe as https, because traffic never leaves the machine. */
export const isThisMachine = ({ hostname }: Pick<URL, 'hostname'>): boolean =>
  /^(?:127\.\d+\.\d+\.\d+|\[::1\]|localhost)$/.test(hostname)

export const mapsRoles = ({ roles }: Provider): boolean => Object.values(roles).some((values) => values.length > 0)

/** Why a sign-in failed: used in the audit log, metrics and the URL of the page that explains it. */
export const reasons = [
  'provider_unavailable',
  'refused_by_provider',
  'not_started_here',
  'invalid_response',
  'not_allowed',
  'email_missing',
  'email_taken',
  'user_inactive',
  'user_unknown',
  'key_limited',
  'address_refused',
  'account_missing',
  'too_many_attempts',
  'quota_reached',
] as const
export type Reason = (typeof reasons)[number]

/** A failed sign-in whose reason may be shown to the person. `note`: for the audit log and the log only. */
export class SignInFailure extends Error {
  override readonly name = 'SignInFailure'
  readonly reason: Reason
  readonly note: string | undefined

  constructor(reason: Reason, note?: string, options?: { cause: unknown }) {
    super(note ?? reason, options)
    this.reason = reason
    this.note = note
  }
}
