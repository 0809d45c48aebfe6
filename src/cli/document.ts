import { readFileSync } from 'node:fs'
import { packageFiles } from '../kernel/package_files.ts'

/** The subset of JSON Schema that openapi.json uses. */
export type Schema = {
  $ref?: string
  type?: string | string[]
  description?: string
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: boolean | Schema
  propertyNames?: Schema
  items?: Schema
  anyOf?: Schema[]
  enum?: unknown[]
  'x-default'?: unknown
  examples?: unknown[]
  pattern?: string
  'x-must'?: string
  'x-pem'?: boolean
  'x-volatile'?: boolean
  'x-shownOnce'?: boolean
  'x-setBy'?: string
  writeOnly?: boolean
  dependentRequired?: Record<string, string[]>
}
export type Parameter = { name: string; in: string; required?: boolean; description?: string; schema: Schema }
type Content = Record<string, { schema: Schema }>
export type DocumentOperation = {
  operationId: string
  summary: string
  description?: string
  parameters: (Parameter | { $ref: string })[]
  requestBody?: { content: Content }
  responses: Record<string, { content?: Content }>
}
type Document = { paths: Record<string, Record<string, DocumentOperation>>; components: unknown }

let read: Document | undefined
/** Loaded on first use: few commands need all of it. */
function document(): Document {
  read ??= JSON.parse(readFileSync(packageFiles.openapi, 'utf8')) as Document
  return read
}

export const paths = (): Document['paths'] => document().paths

/** Resolves a `$ref`; returns anything else unchanged. */
export function deref<T extends object>(value: T | { $ref?: string }): T {
  const { $ref } = value as { $ref?: string }
  if (!$ref) return value as T
  const steps = $ref.slice(2).split('/')
  return steps.reduce((place, step) => (place as Record<string, unknown>)[step], document() as unknown) as T
}

/** The name of the component that a schema refers to, such as ApiKeyList. */
export const componentOf = ({ $ref = '' }: Schema): string => $ref.split('/').at(-1) ?? ''

export const typesOf = ({ type, anyOf }: Schema): string[] => [
  ...[type ?? []].flat(),
  ...(anyOf ?? []).flatMap((each) => typesOf(deref(each))),
]
