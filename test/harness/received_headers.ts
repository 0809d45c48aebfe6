export type AnswerHeaders = Pick<Headers, 'get' | 'has' | 'keys' | 'getSetCookie' | typeof Symbol.iterator>

/** As `Headers` shows them. That class loads all of `fetch`: 60 ms of processor time for each test file. */
export function receivedHeaders(lists: Readonly<Record<string, readonly string[] | undefined>>): AnswerHeaders {
  const known = new Map(Object.entries(lists).map(([name, values = []]) => [name.toLowerCase(), values]))
  const names = [...known.keys()].sort()
  const get = (name: string) => known.get(name.toLowerCase())?.join(', ') ?? null
  const getSetCookie = () => [...(known.get('set-cookie') ?? [])]
  const entries = names.flatMap((name): [string, string][] =>
    name === 'set-cookie' ? getSetCookie().map((value) => [name, value]) : [[name, get(name) ?? '']],
  )
  return {
    get,
    has: (name) => known.has(name.toLowerCase()),
    keys: () => entries.map(([name]) => name).values(),
    getSetCookie,
    [Symbol.iterator]: () => entries.values(),
  }
}
