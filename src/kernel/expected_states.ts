/**
 * Status codes of states that are intended, or where nothing was configured to be checked or sent: neither up nor a
 * fault. Shared by the dashboard and the command line.
 */
const expectedCodes = new Set(['not_checked', 'not_used', 'nothing_sent_yet', 'disabled'])

export const isExpected = ({ code }: { readonly code: string }): boolean => expectedCodes.has(code)
