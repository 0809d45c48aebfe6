import { stringify } from 'yaml'
import { deref, type Schema } from '../document.ts'
import { printable } from '../output/terminal.ts'
import {
  createSchemas,
  formVersion,
  type Json,
  type Kind,
  kindNames,
  type Rule,
  referenceOf,
  type Thing,
} from './kinds.ts'

const inOrder = new Intl.Collator('en', { numeric: true })

/** Sorted, so that equal rule sets have equal texts. */
const writeRules = (rules: readonly Rule[]): unknown[] =>
  rules
    .toSorted((a, b) => inOrder.compare(a.cidr, b.cidr))
    .map(({ action, cidr, ...rest }) => (Object.keys(rest).length ? { [action]: cidr, ...rest } : `${action} ${cidr}`))

type Written = {
  /** Adds ids, which identify a resource after a change of its name. */
  readonly withIds: boolean
  /** Sections to write even if empty, which states that there should be none. */
  readonly sections: readonly Kind[]
  /** Lines at the top. */
  readonly comment: readonly string[]
}

/** The account as text, with names for references. */
export function writeState(things: readonly Thing[], { withIds, sections: kinds, comment }: Written): string {
  const nameOf = new Map(things.map(({ id, name }) => [id ?? '', name]))
  const write = ({ kind, id, fields, rules, routes }: Thing): Json => ({
    ...(withIds && id && { id }),
    ...named(createSchemas[kind], fields, nameOf),
    ...(rules?.length && { rules: writeRules(rules) }),
    ...(routes?.length && { routes: routes.map(write) }),
  })
  const sections = kindNames
    .map((kind) => ({ kind, own: things.filter((thing) => thing.kind === kind) }))
    .filter(({ kind, own }) => own.length > 0 || kinds.includes(kind))
    .map(({ kind, own }) => [kind, Object.fromEntries(own.map((thing) => [thing.name, write(thing)]))])
  const text = stringify(
    { gatehouse: formVersion, ...Object.fromEntries(sections) },
    // Quotes texts that YAML 1.1, which many tools use, would read as something else: yes, 0o17, 12:30.
    { lineWidth: 0, aliasDuplicateObjects: false, compat: 'yaml-1.1' },
  )
  const lines = comment.map((line) => `# ${printable(line).replaceAll('\n', '\\n')}\n`)
  return `${lines.join('')}${text}`
}

function named(schema: Schema, fields: Json, nameOf: ReadonlyMap<string, string>): Json {
  const toName = (id: unknown) => nameOf.get(String(id)) ?? id
  const properties = Object.entries(schema.properties ?? {}).map(([name, referred]) => {
    const inner = deref<Schema>(referred)
    return { inner, reference: referenceOf(name, inner), name }
  })
  const told = Object.entries(fields).filter(([, value]) => value !== null)
  return Object.fromEntries(
    told.map(([name, value]) => {
      const found = properties.find((property) => (property.reference?.shown ?? property.name) === name)
      if (found?.reference?.form === 'map') {
        const entries = Object.entries(value as Json)
        return [name, Object.fromEntries(entries.map(([id, each]) => [toName(id), each]))]
      }
      if (found?.reference) return [name, Array.isArray(value) ? value.map(toName) : toName(value)]
      const isGroup = found?.inner.properties && value && typeof value === 'object'
      return [name, isGroup ? named(found.inner, value as Json, nameOf) : value]
    }),
  )
}
