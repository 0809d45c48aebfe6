import { getPublicSuffix } from 'tldts'

// Includes the private part of the list: the holder of *.github.io would hold the names of all its users.
const isPublicSuffix = (name: string) => getPublicSuffix(name, { allowPrivateDomains: true }) === name

/**
 * Whether names directly under a domain belong to different people, as under co.uk, where no account may have a
 * wildcard. By default the list says so for every unknown top-level domain.
 */
export const isSharedDomain = (domain: string): boolean =>
  // Some suffixes are wildcards: every name under kawasaki.jp is a suffix.
  isPublicSuffix(domain) || isPublicSuffix(`any.${domain}`)
