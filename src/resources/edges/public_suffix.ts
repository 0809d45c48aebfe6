import { getPublicSuffix } from 'tldts'

// The private part of the list counts too: the holder of *.github.io would hold the names of all its users.
const isPublicSuffix = (name: string) => getPublicSuffix(name, { allowPrivateDomains: true }) === name

/**
 * Whether names directly under a domain belong to different people, as under co.uk: no account may have a wildcard
 * there. By the list's own default, that holds for every top-level domain that it does not know.
 */
export const isSharedDomain = (domain: string): boolean =>
  // Some suffixes are wildcards themselves: every name under kawasaki.jp is one.
  isPublicSuffix(domain) || isPublicSuffix(`any.${domain}`)
