/** Filters requests of a route by method, or by words in the User-Agent header. */
export type Filter = { allow: string[]; deny: string[]; mode: (typeof filterModes)[number] }

export const filterModes = ['enforce', 'warn'] as const
export const filterDefaults = { allow: [], deny: [], mode: 'enforce' } as const satisfies Filter

/** Nodes refuse a longer User-Agent, because searching it would take too long. */
export const filterLimits = { entries: 30, methodBytes: 32, textBytes: 64, userAgentBytes: 2_048 } as const

/** Methods are case-sensitive, and all in common use are upper case. */
export const methodPattern = `^[A-Z][A-Z0-9_-]{0,${filterLimits.methodBytes - 1}}$`
export const userAgentPattern = `^[\\x20-\\x7e]{1,${filterLimits.textBytes}}$`

/** Methods that a 405 lists if the route only denies some. */
const commonMethods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
export const allowedMethods = ({ allow, deny }: Pick<Filter, 'allow' | 'deny'>): string[] =>
  (allow.length ? allow : commonMethods).filter((method) => !deny.includes(method))

type Fault = { place: string; fault: string } | undefined

function filterFault({ allow, deny }: Filter, pattern: string, named: string): Fault {
  if (allow.length + deny.length === 0) return { place: 'allow', fault: 'must not be empty unless deny has entries' }
  for (const [place, list] of Object.entries({ allow, deny })) {
    if (list.length > filterLimits.entries) return { place, fault: `must have at most ${filterLimits.entries} entries` }
    const seen = new Set<string>()
    for (const [index, entry] of list.entries()) {
      if (!new RegExp(pattern).test(entry)) return { place: `${place}[${index}]`, fault: `must be ${named}` }
      if (seen.has(entry.toLowerCase())) return { place: `${place}[${index}]`, fault: 'must not be listed twice' }
      seen.add(entry.toLowerCase())
    }
  }
  return undefined
}

export function methodsFault(filter: Filter): Fault {
  const never = filter.allow.findIndex((method) => method === 'CONNECT' || method === 'TRACE')
  return (
    filterFault(filter, methodPattern, `a method in upper case, of at most ${filterLimits.methodBytes} bytes`) ??
    (never >= 0
      ? { place: `allow[${never}]`, fault: 'must not be CONNECT or TRACE, which no edge accepts' }
      : undefined)
  )
}

export const userAgentFault = (filter: Filter): Fault =>
  filterFault(filter, userAgentPattern, `printable ASCII of at most ${filterLimits.textBytes} bytes`)
