import type { Role } from '../identity/caller.ts'

/** A provider as the operator's file has it. It signs people into one account and no other. */
export type Provider = {
  /** In addresses, in the audit and in metrics. */
  readonly name: string
  /** On the button. */
  readonly title: string
  /** The account, by its name or id. */
  readonly account: string
  readonly issuer: string
  readonly clientId: string
  /** Undefined: a public client, which PKCE alone protects. */
  readonly clientSecret: string | undefined
  readonly scopes: readonly string[]
  readonly createUsers: boolean
  readonly linkByEmail: boolean
  readonly allowedDomains: readonly string[]
  readonly allowedGroups: readonly string[]
  readonly groupsClaim: string
  readonly rolesClaim: string
  /** Values of the roles claim for each role; empty: roles are managed in Gatehouse. */
  readonly roles: Readonly<Record<Role, readonly string[]>>
  /** The role of users without one from a claim. Undefined: they are refused. */
  readonly defaultRole: Role | undefined
  readonly clockToleranceSeconds: number
}

/** Where http is as good as https: nothing between us can read or change it. */
export const isThisMachine = ({ hostname }: Pick<URL, 'hostname'>): boolean =>
  /^(?:127\.\d+\.\d+\.\d+|\[::1\]|localhost)$/.test(hostname)

export const mapsRoles = ({ roles }: Provider): boolean => Object.values(roles).some((values) => values.length > 0)

/** Why a sign-in failed: in the audit, in metrics and in the address of the page that explains it. */
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

/** A sign-in that failed for a reason that the person may know. `note` is for the audit and the log. */
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
