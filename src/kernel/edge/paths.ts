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
