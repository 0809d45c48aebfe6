/** Whether the path has what some servers take for a separator and others for part of a name. */
export const hasEncodedSlash = (path: string): boolean => /\\|%(?:2f|5c)/i.test(path)
/** Whether the path has parameters, which some servers cut before they look it up. */
export const hasParameters = (path: string): boolean => /;|%3b/i.test(path)

/** How a route compares its path with that of a request. */
export const matchTypes = ['exact_path', 'path_prefix'] as const
export const maxMatchBytes = 1024
const pathCharacters = "A-Za-z0-9\\-._~!$&'()*+,;=:@/"
/** A route's path, percent-encoded where needed. */
export const matchPattern = `^/(?:[${pathCharacters}]|%(?!2[fF]|5[cC]))*$`
/** As older versions stored it: encoded slashes reach the node, which refuses that route alone and reports it. */
export const storedMatchPattern = `^/[${pathCharacters}%]*$`
/**
 * The path of a request that every server reads alike, but for case and a slash at the end: no encoding, parameters, empty or dot
 * segments, nor what some take for a script or a session. The same as the fast path of the proxy decides about.
 */
export const testedPathPattern = `^(?!.*(?://|/\\.|/\\(|\\.(?:[A-Za-z][A-Za-z0-9]{1,4})?/|\\.$))/[A-Za-z0-9\\-._~!$&'()*+,:=@/]*$`
