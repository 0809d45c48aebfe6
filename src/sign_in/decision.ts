import { type Role, roles } from '../identity/caller.ts'
import { mapsRoles, type Provider, SignInFailure } from './provider.ts'

/** What the provider said of a person, in a signed ID token or over its own TLS. */
export type Claims = { readonly sub: string } & Readonly<Record<string, unknown>>

export type Person = {
  readonly subject: string
  readonly name: string
  /** As the provider has it; who it belongs to is another question. */
  readonly email: string | undefined
  readonly emailVerified: boolean
  /** Undefined: Gatehouse manages the roles, and a known user keeps theirs. */
  readonly role: Role | undefined
  /** For a user who is created. */
  readonly newRole: Role | undefined
  /** Whether the address is verified and of an allowed domain: what linking by email asks for. */
  readonly ownsAllowedEmail: boolean
}

/**
 * The claims of the signed ID token, completed from userinfo. An address and its verification come from one source, or a
 * verified address of userinfo would vouch for another one that people can set themselves in the ID token.
 */
export function combineClaims(idToken: Claims, userinfo: Readonly<Record<string, unknown>>): Claims {
  const { email, email_verified } = typeof idToken.email === 'string' ? idToken : userinfo
  const confirmed = email === userinfo.email ? userinfo.email_verified : undefined
  return { ...userinfo, ...idToken, email, email_verified: email_verified ?? confirmed }
}

/** Who signs in, and as what. Throws when the provider's rules do not let them. */
export function decide(provider: Provider, claims: Claims): Person {
  const email = typeof claims.email === 'string' && isEmail(claims.email) ? claims.email : undefined
  // Strictly true: some providers send a text, and some leave it out where anybody can set the address.
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

/** A claim with one value may be a text instead of a list. */
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
