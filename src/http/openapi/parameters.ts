import type { TObject } from 'typebox'
import type { Json } from './json.ts'
import { pascal } from './schemas.ts'

/** From this many operations on, a reader is better served by one definition than by copies. */
const fewestUses = 3

export function queryParameters(query: TObject | undefined): Json[] {
  return Object.entries(query?.properties ?? {}).map(([name, schema]) => {
    const { description, ...rest } = schema as Json
    return {
      name,
      in: 'query',
      required: query?.required?.includes(name) ?? false,
      ...(description ? { description } : {}),
      schema: rest,
    }
  })
}

/**
 * Replaces equal query parameters by references, and returns what they refer to. When parameters with the same name have
 * different schemas, the most used one is shared and the others stay in place.
 */
export function shareQueryParameters(operations: readonly { parameters: Json[] }[]): Json {
  const uses = Map.groupBy(
    operations.flatMap(({ parameters }) => parameters.filter((parameter) => parameter.in === 'query')),
    (parameter) => JSON.stringify(parameter),
  )
  const shared: Json = {}
  for (const equal of [...uses.values()].toSorted((one, other) => other.length - one.length)) {
    const [first] = equal
    const name = pascal(String(first?.name))
    if (equal.length < fewestUses || name in shared) continue
    shared[name] = { ...first }
    for (const parameter of equal) {
      for (const key of Object.keys(parameter)) delete parameter[key]
      parameter.$ref = `#/components/parameters/${name}`
    }
  }
  return shared
}
