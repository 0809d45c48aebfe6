import { type Role, roles } from '../identity/caller.ts'
import { mapsRoles, type Provider, SignInFailure } from './provider.ts'

/** Claims about a person, from a signed ID token or from userinfo over the provider's TLS. */
export type Claims = { readonly sub: string } & Readonly<Record<string, unknown>>

export type Person = {
  readonly subject: string
  readonly name: string
  /** As claimed by the provider, without proof of ownership. */
  readonly email: string | undefined
  readonly emailVerified: boolean
  /** Undefined: Gatehouse manages roles, and a known user keeps theirs. */
  readonly role: Role | undefined
  /** Role of a newly created user. */
  readonly newRole: Role | undefined
  /** Whether the address is verified and in an allowed domain, which linking by email requires. */
  readonly ownsAllowedEmail: boolean
}

/**
 * Claims of the signed ID token, completed from userinfo. The address and its verification must come from one source: a
 * verified address in userinfo must not vouch for another one in the ID token, which people may be able to set
 * themselves.
 */
export function combineClaims(idToken: Claims, userinfo: Readonly<Record<string, unknown>>): Claims {
  const { email, email_verified } = typeof idToken.email === 'string' ? idToken : userinfo
  const confirmed = email === userinfo.email ? userinfo.email_verified : undefined
  return { ...userinfo, ...idToken, email, email_verified: email_verified ?? confirmed }
}

/** The person and their role. Throws if the provider's rules do not admit them. */
export function decide(provider: Provider, claims: Claims): Person {
  const email = typeof claims.email === 'string' && isEmail(claims.email) ? claims.email : undefined
  // Strictly true: some providers send a string, and some omit it if anybody can set the address.
  const emailVerified = claims.email_verified === true
  const ownsAllowedEmail = emailVerified && email !== undefined && provider.allowedDomains.includes(domainOf(email))
  const inAllowedGroup = valuesOf(claims[provider.groupsClaim]).some((group) => provider.allowedGroups.includes(group))
  if (!ownsAllowedEmail && !inAllowedGroup)
    throw new SignInFailure('not_allowed', 'neither a verified email of an allowed domain nor an allowed group')
  const values = valuesOf(claims[provider.rolesClaim])
  const mapped = roles.find((role) => provider.roles[role].some((value) => values.includes(value)))
  const role = mapped ?? provider.defaultRole
  if (mapsRoles(provider) && !role) throw new SignInFailure('not_allowed', 'no role by the roles claim')
  return {
    subject: claims.sub,
    name: nameOf(claims, email),
    email,
    emailVerified,
    role: mapsRoles(provider) ? role : undefined,
    newRole: role,
    ownsAllowedEmail,
  }
}

/** A claim with one value may be a string instead of a list. */
function valuesOf(claim: unknown): readonly string[] {
  const values = Array.isArray(claim) ? claim : [claim]
  return values.filter((value) => typeof value === 'string')
}

const isEmail = (text: string): boolean => /^[^\s@]+@[^\s@]+$/.test(text) && Buffer.byteLength(text) <= 255
const domainOf = (email: string): string => email.slice(email.lastIndexOf('@') + 1).toLowerCase()

function nameOf(claims: Claims, email: string | undefined): string {
  const name = [claims.name, claims.preferred_username, email].find(
    (text): text is string => typeof text === 'string' && /\S/.test(text),
  )
  return withinBytes(name ?? claims.sub, 255)
}

function withinBytes(text: string, most: number): string {
  let kept = ''
  for (const character of text) {
    if (Buffer.byteLength(kept + character) > most) break
    kept += character
  }
  return kept
}
