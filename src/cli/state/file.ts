import { LineCounter, parseDocument, stringify } from 'yaml'
import { deref, type Schema, typesOf } from '../document.ts'
import { Failure } from '../exits.ts'
import {
  createSchemas,
  isReferableId,
  type Json,
  type Kind,
  kindNames,
  normalize,
  type Reference,
  type Rule,
  referenceOf,
  ruleSchema,
  type Thing,
} from './kinds.ts'

/** A file, read. A section that is not in it is left alone in the account, whatever is there. */
export type StateFile = { readonly sections: Partial<Record<Kind, readonly Thing[]>> }

export const formVersion = 1
const fault = (place: string, message: string) => new Failure('refused', `${place}: ${message}`)

/** Placeholder for the id of a resource that the file names but the account may lack. No text contains NUL. */
export const markOf = (kind: Thing['kind'], name: string): string => `\0${kind}:${name}`

export function readState(text: string): StateFile {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines })
  const [error] = document.errors
  if (error) throw fault('the state file', error.message.split('\n')[0] ?? '')
  const value = asObject('the state file', document.toJS({ maxAliasCount: 1_000 }))
  const { gatehouse, ...sections } = value
  if (gatehouse !== formVersion)
    throw fault('the state file', `must begin with 'gatehouse: ${formVersion}', the version of the file format`)
  const names = Object.fromEntries(
    kindNames.map((kind) => [kind, new Set(Object.keys(asObject(kind, sections[kind] ?? {})))]),
  )
  for (const name of Object.keys(sections))
    if (!kindNames.includes(name as Kind))
      throw fault(name, `is not a known section; expected one of ${kindNames.join(', ')}`)
  const read: Partial<Record<Kind, Thing[]>> = {}
  for (const kind of kindNames) {
    if (!(kind in sections)) continue
    read[kind] = Object.entries(asObject(kind, sections[kind] ?? {})).map(([name, entry]) =>
      readThing(kind, name, asObject(`${kind}.${name}`, entry ?? {}), names),
    )
  }
  return { sections: read }
}

type Names = Record<string, Set<string>>

function readThing(kind: Thing['kind'], name: string, entry: Json, names: Names): Thing {
  const place = `${kind}.${name}`
  const { id, rules, routes, ...rest } = entry
  if (id !== undefined && typeof id !== 'string') throw fault(place, 'id must be text')
  if (rules !== undefined && kind !== 'ip_policies')
    throw fault(place, 'has rules, but only IP policies can have rules')
  if (routes !== undefined && kind !== 'https_edges')
    throw fault(place, 'has routes, but only HTTPS edges can have routes')
  const schema = createSchemas[kind]
  const fields = normalize(schema, resolve(place, schema, rest, names))
  for (const required of schema.required ?? []) {
    const shown = referenceOf(required, deref<Schema>(schema.properties?.[required] ?? {}))?.shown ?? required
    if (fields[shown] === undefined) throw fault(place, `needs ${shown}`)
  }
  return {
    kind,
    name,
    ...(id && { id }),
    fields,
    ...(kind === 'ip_policies' && {
      rules: asList(`${place}.rules`, rules).map((rule, index) => readRule(`${place}.rules[${index}]`, rule)),
    }),
    ...(kind === 'https_edges' && {
      routes: asList(`${place}.routes`, routes).map((route, index) => {
        const fields = asObject(`${place}.routes[${index}]`, route)
        return readThing('routes', `${name} ${fields.match_type} ${fields.match}`, fields, names)
      }),
    }),
  }
}

/** Refuses what no field takes, and puts marks in place of names. */
function resolve(place: string, schema: Schema, entry: Json, names: Names): Json {
  const properties = Object.entries(schema.properties ?? {}).map(([name, referred]) => {
    const inner = deref<Schema>(referred)
    const reference = referenceOf(name, inner)
    return { shown: reference?.shown ?? name, inner, reference }
  })
  return Object.fromEntries(
    Object.entries(entry).map(([name, value]) => {
      const found = properties.find(({ shown }) => shown === name)
      if (!found)
        throw fault(
          place,
          `has the unknown field ${name}; expected one of ${properties.map(({ shown }) => shown).join(', ')}`,
        )
      const { inner, reference } = found
      if (reference) return [name, resolveNames(`${place}.${name}`, reference, value, names)]
      checkType(`${place}.${name}`, inner, value)
      return [
        name,
        inner.properties && value
          ? resolve(`${place}.${name}`, inner, asObject(`${place}.${name}`, value), names)
          : value,
      ]
    }),
  )
}

function resolveNames(place: string, { kinds, form }: Reference, value: unknown, names: Names): unknown {
  const one = (each: unknown): string => {
    if (typeof each !== 'string') throw fault(place, `must be a name from ${kinds.join(' or ')}`)
    const [kind, other] = kinds.filter((candidate) => names[candidate]?.has(each))
    if (other) throw fault(place, `refers to '${each}', which is in ${kind} and in ${other}; rename one of them`)
    if (kind) return markOf(kind, each)
    // An id of something that the file does not hold.
    if (isReferableId(each)) return each
    throw fault(place, `refers to '${each}', which is not in ${kinds.join(' or ')}`)
  }
  if (form === 'one') return one(value)
  if (form === 'list') return asList(place, value).map(one)
  return Object.fromEntries(Object.entries(asObject(place, value)).map(([name, each]) => [one(name), each]))
}

function checkType(place: string, schema: Schema, value: unknown): void {
  const types = typesOf(schema)
  const type =
    value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value === 'number' ? 'integer' : typeof value
  // YAML reads `metadata: 12` as a number. Report what is expected rather than guess.
  if (types.length && value !== null && !types.includes(type))
    throw fault(
      place,
      `must be ${types.filter((each) => each !== 'null').join(' or ')}, not ${type}; put quotes around text that YAML would read as another type`,
    )
}

function readRule(place: string, value: unknown): Rule {
  if (typeof value === 'string') {
    const [action = '', cidr = '', ...more] = value.trim().split(/\s+/)
    if (!['allow', 'deny'].includes(action) || !cidr || more.length)
      throw fault(place, "must be 'allow CIDR', 'deny CIDR', or {allow: CIDR, description: …}")
    return normalize(ruleSchema, { action, cidr }) as Rule
  }
  const { allow, deny, ...rest } = asObject(place, value)
  const action = allow === undefined ? 'deny' : 'allow'
  const cidr = allow ?? deny
  if (typeof cidr !== 'string' || (allow !== undefined && deny !== undefined))
    throw fault(place, 'must have allow or deny, with a range')
  for (const [name, each] of Object.entries(rest)) {
    if (!['description', 'metadata', 'expires_at'].includes(name)) throw fault(place, `has the unknown field ${name}`)
    checkType(`${place}.${name}`, { type: ['string', 'null'] }, each)
  }
  return normalize(ruleSchema, { ...rest, action, cidr }) as Rule
}

function asObject(place: string, value: unknown): Json {
  if (value === null || typeof value !== 'object' || Array.isArray(value))
    throw fault(place, 'must be a map of names to values')
  return value as Json
}
function asList(place: string, value: unknown): unknown[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) throw fault(place, 'must be a list')
  return value
}

const inOrder = new Intl.Collator('en', { numeric: true })

/** Sorted, so that the same rules are the same text. */
const writeRules = (rules: readonly Rule[]): unknown[] =>
  rules
    .toSorted((a, b) => inOrder.compare(a.cidr, b.cidr))
    .map(({ action, cidr, ...rest }) => (Object.keys(rest).length ? { [action]: cidr, ...rest } : `${action} ${cidr}`))

/** The account as text. References are names; `withIds` for following a thing through a change of its name. */
export function writeState(things: readonly Thing[], nameOf: ReadonlyMap<string, string>, withIds: boolean): string {
  const write = ({ kind, id, fields, rules, routes }: Thing): Json => ({
    ...(withIds && id && { id }),
    ...named(createSchemas[kind], fields, nameOf),
    ...(rules?.length && { rules: writeRules(rules) }),
    ...(routes?.length && { routes: routes.map(write) }),
  })
  const sections = kindNames.map((kind) => [
    kind,
    Object.fromEntries(things.filter((thing) => thing.kind === kind).map((thing) => [thing.name, write(thing)])),
  ])
  const text = stringify(
    { gatehouse: formVersion, ...Object.fromEntries(sections) },
    { lineWidth: 0, aliasDuplicateObjects: false },
  )
  return `# Written by 'gatehouse state dump'. A removed section is left unchanged; an empty section means that there should be none.\n${text}`
}

function named(schema: Schema, fields: Json, nameOf: ReadonlyMap<string, string>): Json {
  const toName = (id: unknown) => nameOf.get(String(id)) ?? id
  const properties = Object.entries(schema.properties ?? {}).map(([name, referred]) => {
    const inner = deref<Schema>(referred)
    return { inner, reference: referenceOf(name, inner), name }
  })
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => {
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
