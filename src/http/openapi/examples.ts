import type { TObject, TSchema } from 'typebox'

type Json = Record<string, unknown>

/** One fixed example per kind, so that readers recognize what to replace. */
export const exampleId = (prefix: string): string => `${prefix}_01jz3v8q4se5x9y2m7n6k0abcd`
/** Example values of path parameters. */
export const exampleOfParam = (kind: string): string =>
  ({ number: '1', request: '01980fb4-5c99-7178-9e07-d74d4f2a3bcd' })[kind] ?? exampleId(kind)
export const exampleToken = `gatehouse_${'0'.repeat(49)}`

/**
 * A valid value: all required fields, and optional ones that have an example. Generated from the schema, so every
 * operation has one that matches.
 */
export function exampleOf(schema: TSchema): unknown {
  const { examples, enum: choices, type, pattern, items, minimum } = schema as Json
  if (Array.isArray(examples)) return examples[0]
  if (Array.isArray(choices)) return choices[0]
  const [kind] = [type].flat()
  if (kind === 'object') return exampleObject(schema as TObject)
  if (kind === 'array') return [exampleOf(items as TSchema)]
  if (kind === 'boolean') return true
  if (kind === 'integer') return minimum ?? 1
  const [, prefix] = /^\^([a-z]+)_\[0-7\]/.exec(String(pattern ?? '')) ?? []
  return prefix ? exampleId(prefix) : 'text'
}

const hasExample = (schema: TSchema): boolean => {
  const { examples, items } = schema as { examples?: unknown; items?: TSchema }
  return Array.isArray(examples) || (items !== undefined && hasExample(items))
}

function exampleObject(schema: TObject): Json {
  const { properties, required } = schema as { properties?: Record<string, TSchema>; required?: string[] }
  const shown = Object.entries(properties ?? {}).filter(
    ([name, field]) => required?.includes(name) || hasExample(field),
  )
  return Object.fromEntries(shown.map(([name, field]) => [name, exampleOf(field)]))
}
