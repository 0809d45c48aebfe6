// Describes operations in words, for a model that fills in their parameters and bodies.
import { deref, type Schema } from '../document.ts'
import { callable, type Entry, inChangeSets, readable } from './catalog.ts'
import type { Values } from './send.ts'

type Kind = 'read' | 'change'

/** One line per operation: `id: summary (parameters)`. */
export function listed(kind: Kind, about: string): string[] {
  const word = about.toLowerCase()
  const operations = kind === 'read' ? [...readable.values(), ...toRead] : [...inChangeSets.values()]
  return operations
    .filter(({ id, summary, path }) => [id, summary, path].some((text) => text.toLowerCase().includes(word)))
    .map(({ id, summary, parameters }) => {
      const names = parameters.map(({ name, required }) => (required ? name : `${name}?`))
      return `${id}: ${summary}${names.length ? ` (${names.join(', ')})` : ''}`
    })
}

const toRead = [...callable.values()].filter(({ id }) => id === 'ip_policies.impact')

export const described = ({ id, method, path, summary, description, parameters, body }: Entry): object => ({
  operation: id,
  request: `${method} ${path}`,
  summary,
  ...(description && { description }),
  parameters: parameters.map(({ name, required, description: text, schema }) => ({
    name,
    required: required ?? false,
    ...(text && { description: text }),
    schema: readableSchema(schema),
  })),
  ...(body && { body: readableSchema(body) }),
})

/** Without references, whose document the reader lacks, and without markers for our own programs. */
export function readableSchema(schema: Schema): Values {
  const { 'x-must': must, ...known } = deref<Schema>(schema)
  const entries = Object.entries(known)
    .filter(([name]) => !name.startsWith('x-'))
    .map(([name, value]) => [name, withoutReferences(name, value)])
  return { ...Object.fromEntries(entries), ...(must && !known.description && { description: must }) }
}

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function withoutReferences(name: string, value: unknown): unknown {
  if (name === 'properties')
    return Object.fromEntries(
      Object.entries(value as Record<string, Schema>).map(([field, inner]) => [field, readableSchema(inner)]),
    )
  if (['items', 'additionalProperties', 'propertyNames'].includes(name) && isSchema(value)) return readableSchema(value)
  if (['anyOf', 'allOf', 'oneOf'].includes(name)) return (value as Schema[]).map(readableSchema)
  return value
}
