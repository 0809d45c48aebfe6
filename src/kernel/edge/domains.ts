import { isHostName } from './hostport.ts'

/** Where the proof of a domain is looked for. */
export const challengeLabel = '_gatehouse-challenge'
export const challengeName = (domain: string): string => `${challengeLabel}.${domain}`

/** So that the name of the TXT record fits into DNS, too. */
const maxDomainLength = 253 - challengeName('').length

/** Completes the sentence '<field> …'; undefined when it is a domain. */
export function domainFault(text: string): string | undefined {
  if (text.startsWith('*.')) return 'must be the domain itself. It covers everything under it, so it needs no wildcard'
  return isHostName(text) && text.length <= maxDomainLength
    ? undefined
    : `must be a DNS name of at most ${maxDomainLength} characters, such as example.com`
}

/** A name and every domain above it, the nearest first: a.b.example, b.example, example. */
export function domainsOver(name: string): string[] {
  const labels = name.split('.')
  return labels.map((_, index) => labels.slice(index).join('.'))
}

/** The domain that an HTTPS hostport claims: for *.corp.example:443 that is corp.example. */
export const domainOf = (hostport: string): string => hostport.slice(0, hostport.lastIndexOf(':')).replace(/^\*\./, '')

/** The token of an http-01 challenge: base64url, so that nothing in it ends a path, a field or a line. */
export const challengeTokenPattern = '^[A-Za-z0-9_-]+$'
export const challengeAnswerPattern = '^[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+$'
export const maxChallengeBytes = 400
