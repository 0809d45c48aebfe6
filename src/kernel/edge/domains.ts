import { isHostName } from './hostport.ts'

/** Label of the TXT record that proves a domain. */
export const challengeLabel = '_gatehouse-challenge'
export const challengeName = (domain: string): string => `${challengeLabel}.${domain}`

/** Leaves room for the challenge label in a DNS name. */
const maxDomainLength = 253 - challengeName('').length

/** Completes the sentence '<field> …'; undefined for a valid domain. */
export function domainFault(text: string): string | undefined {
  if (text.startsWith('*.')) return 'must be the domain itself. It covers everything under it, so it needs no wildcard'
  return isHostName(text) && text.length <= maxDomainLength
    ? undefined
    : `must be a DNS name of at most ${maxDomainLength} characters, such as example.com`
}

/** The name and its parent domains, closest first: a.b.example, b.example, example. */
export function domainsOver(name: string): string[] {
  const labels = name.split('.')
  return labels.map((_, index) => labels.slice(index).join('.'))
}

/** The domain that an HTTPS hostport claims: corp.example for *.corp.example:443. */
export const domainOf = (hostport: string): string => hostport.slice(0, hostport.lastIndexOf(':')).replace(/^\*\./, '')

/** Token of an http-01 challenge: base64url, so it cannot end a path, a field or a line. */
export const challengeTokenPattern = '^[A-Za-z0-9_-]+$'
export const challengeAnswerPattern = '^[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+$'
export const maxChallengeBytes = 400
