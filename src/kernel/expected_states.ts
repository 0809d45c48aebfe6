/**
 * Codes of a status that is like that on purpose, or because nothing was asked to be checked or sent. It is not up, and no
 * fault either. The dashboard and the command line agree on it.
 */
const expectedCodes = new Set(['not_checked', 'not_used', 'nothing_sent_yet', 'disabled'])

export const isExpected = ({ code }: { readonly code: string }): boolean => expectedCodes.has(code)
