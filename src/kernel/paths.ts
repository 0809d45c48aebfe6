/** Whether the path has what some servers take for a separator and others for part of a name. */
export const hasEncodedSlash = (path: string): boolean => /\\|%(?:2f|5c)/i.test(path)
/** Whether the path has parameters, which some servers cut before they look it up. */
export const hasParameters = (path: string): boolean => /;|%3b/i.test(path)
