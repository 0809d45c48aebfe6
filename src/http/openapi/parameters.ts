import type { TObject } from 'typebox'
import type { Json } from './json.ts'
import { pascal } from './schemas.ts'

/** With this many uses, one shared definition is easier to read than copies. */
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
 * Replaces equal query parameters with references and returns the definitions. If parameters of the same name differ,
 * the most common one is shared and the others stay inline.
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
