/** Some servers treat these as separators, others as part of a name. */
export const hasEncodedSlash = (path: string): boolean => /\\|%(?:2f|5c)/i.test(path)
/** Path parameters, which some servers strip before they look up the path. */
export const hasParameters = (path: string): boolean => /;|%3b/i.test(path)

/** How a route matches request paths. */
export const matchTypes = ['exact_path', 'path_prefix'] as const
export const maxMatchBytes = 1024
const pathCharacters = "A-Za-z0-9\\-._~!$&'()*+,;=:@/"
/** A route's path, percent-encoded where necessary. */
export const matchPattern = `^/(?:[${pathCharacters}]|%(?!2[fF]|5[cC]))*$`
/**
 * Accepts what older versions stored: a path with encoded slashes reaches the node, which refuses only that route and
 * reports it.
 */
export const storedMatchPattern = `^/[${pathCharacters}%]*$`
/**
 * A path that all servers interpret alike, apart from case and a trailing slash: no encoding, parameters, empty or dot
 * segments, and nothing that resembles a script or a session. Equals the paths that the proxy's fast path decides
 * about.
 */
export const testedPathPattern = `^(?!.*(?://|/\\.|/\\(|\\.(?:[A-Za-z][A-Za-z0-9]{1,4})?/|\\.$))/[A-Za-z0-9\\-._~!$&'()*+,:=@/]*$`
