/** On how many of the live edge nodes a change is in force, and which are behind. */
export type Applied = {
  readonly generation: number
  readonly applied: number
  readonly live: number
  readonly behind: readonly string[]
}

/** By a name in lower case: `Headers`, or a `Map`. */
type ReadableHeaders = { get: (name: string) => string | null | undefined }

/** The number of a change; undefined if it does not affect edge nodes. */
export function generationOf(headers: ReadableHeaders): number | undefined {
  const generation = headers.get('service-generation')
  return generation ? Number(generation) : undefined
}

/** What the headers say about a change that was sent with `wait=applied`. */
export function appliedOf(headers: ReadableHeaders): Applied | undefined {
  const generation = generationOf(headers)
  if (generation === undefined) return undefined
  const [applied = 0, live = 0] = headers.get('service-applied')?.split('/').map(Number) ?? []
  return { generation, applied, live, behind: headers.get('service-behind')?.split(/,\s*/) ?? [] }
}
