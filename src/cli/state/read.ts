import { LineCounter, parseDocument } from 'yaml'
import { closest } from '../../kernel/closest.ts'
import { deref, type Schema, typesOf } from '../document.ts'
import type { Place } from '../values/faults.ts'
import { checkDistinct, checkValue } from './check.ts'
import { asList, asObject, createFaults, type Faults, fault } from './faults.ts'
import {
  createSchemas,
  formVersion,
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

/** A parsed file. A missing section leaves those resources of the account alone. */
export type StateFile = { readonly sections: Partial<Record<Kind, readonly Thing[]>> }

/** Placeholder for the id of a resource that the file names but the account may lack. No text contains NUL. */
export const markOf = (kind: Thing['kind'], name: string): string => `\0${kind}:${name}`

/** Reports all faults at once, each with its line. */
export function readState(text: string): StateFile {
  const lineCounter = new LineCounter()
  const document = parseDocument(text, { lineCounter })
  const faults = createFaults(document, lineCounter)
  faults.throwIfAny()
  const value = faults.collect(() => asObject([], document.toJS({ maxAliasCount: 1_000 }))) ?? {}
  const { gatehouse, ...sections } = value
  faults.collect(() => {
    if (gatehouse !== formVersion)
      throw fault([], `must begin with 'gatehouse: ${formVersion}', the version of the file format`)
  })
  faults.throwIfAny()
  for (const name of Object.keys(sections))
    faults.collect(() => {
      if (!kindNames.includes(name as Kind))
        throw fault([name], `is not a known section; expected one of ${kindNames.join(', ')}`)
    })
  const entries = kindNames
    .filter((kind) => kind in sections)
    .map((kind) => ({ kind, entries: faults.collect(() => asObject([kind], sections[kind] ?? {})) ?? {} }))
  const names = Object.fromEntries(entries.map(({ kind, entries }) => [kind, new Set(Object.keys(entries))]))
  const reading = { names, collect: faults.collect }
  const read: Partial<Record<Kind, Thing[]>> = {}
  for (const { kind, entries: things } of entries)
    read[kind] = Object.entries(things).flatMap(
      ([name, entry]) =>
        faults.collect(() => readThing(kind, name, [kind, name], asObject([kind, name], entry ?? {}), reading)) ?? [],
    )
  checkHostports(read, faults.collect)
  faults.throwIfAny()
  return { sections: read }
}

/** A hostport belongs to one edge. */
function checkHostports(read: Partial<Record<Kind, Thing[]>>, collect: Faults['collect']): void {
  const entries = (['tcp_edges', 'https_edges'] as const).flatMap((kind) =>
    (read[kind] ?? []).flatMap(({ name, fields }) =>
      ((fields.hostports ?? []) as string[]).map((key, index) => ({ place: [kind, name, 'hostports', index], key })),
    ),
  )
  checkDistinct(entries, 'the hostport', collect)
}

type Names = Record<string, Set<string>>
type Reading = { readonly names: Names; readonly collect: Faults['collect'] }

function readThing(kind: Thing['kind'], name: string, place: Place, entry: Json, reading: Reading): Thing {
  const { collect } = reading
  const { id, rules, routes, ...rest } = entry
  if (id !== undefined && typeof id !== 'string') throw fault([...place, 'id'], 'must be text')
  if (rules !== undefined && kind !== 'ip_policies')
    throw fault([...place, 'rules'], 'is here, but only IP policies can have rules')
  if (routes !== undefined && kind !== 'https_edges')
    throw fault([...place, 'routes'], 'is here, but only HTTPS edges can have routes')
  const schema = createSchemas[kind]
  const fields = normalize(schema, resolve(place, schema, rest, reading))
  return {
    kind,
    name,
    ...(id && { id }),
    fields,
    ...(kind === 'ip_policies' && { rules: readRules([...place, 'rules'], rules, collect) }),
    ...(kind === 'https_edges' && { routes: readRoutes(name, [...place, 'routes'], routes, reading) }),
  }
}

function readRules(place: Place, value: unknown, collect: Faults['collect']): Rule[] {
  const read = asList(place, value).flatMap((each, index) => {
    const there = [...place, index]
    const rule = collect(() => readRule(there, each, collect))
    return rule ? [{ place: there, rule, key: rule.cidr }] : []
  })
  checkDistinct(read, 'the range', collect)
  return read.map(({ rule }) => rule)
}

function readRoutes(edge: string, place: Place, value: unknown, reading: Reading): Thing[] {
  const read = asList(place, value).flatMap((each, index) => {
    const there = [...place, index]
    const route = reading.collect(() => {
      const fields = asObject(there, each)
      return readThing('routes', `${edge} ${fields.match_type} ${fields.match}`, there, fields, reading)
    })
    return route ? [{ place: there, route, key: `${route.fields.match_type} ${route.fields.match}` }] : []
  })
  checkDistinct(read, 'the match', reading.collect)
  return read.map(({ route }) => route)
}

/** Refuses unknown fields, and replaces names by marks. */
function resolve(place: Place, schema: Schema, entry: Json, reading: Reading): Json {
  const properties = Object.entries(schema.properties ?? {}).map(([name, referred]) => {
    const inner = deref<Schema>(referred)
    const reference = referenceOf(name, inner)
    return { shown: reference?.shown ?? name, inner, reference }
  })
  const read = (name: string, value: unknown): [string, unknown] => {
    const there = [...place, name]
    const found = properties.find(({ shown }) => shown === name)
    if (!found) {
      const known = properties.map(({ shown }) => shown)
      const meant = closest(name, known)
      throw fault(
        there,
        `is an unknown field; ${meant ? `did you mean ${meant}` : `expected one of ${known.join(', ')}`}`,
      )
    }
    const { inner, reference } = found
    if (reference) {
      // Limits of the number of items. Items are names here, not ids.
      if (reference.form !== 'one')
        checkValue(there, { ...inner, items: {}, propertyNames: {} }, value, reading.collect)
      return [name, resolveNames(there, reference, value, reading.names)]
    }
    checkType(there, inner, value)
    if (inner.properties && value) return [name, resolve(there, inner, asObject(there, value), reading)]
    checkValue(there, inner, value, reading.collect)
    return [name, value]
  }
  for (const required of schema.required ?? []) {
    const shown = referenceOf(required, deref<Schema>(schema.properties?.[required] ?? {}))?.shown ?? required
    reading.collect(() => {
      if ((entry[shown] ?? undefined) === undefined) throw fault(place, `needs ${shown}`)
    })
  }
  const fields = Object.entries(entry).map(([name, value]) => reading.collect(() => read(name, value)))
  return Object.fromEntries(fields.filter((field) => field !== undefined))
}

function resolveNames(place: Place, { kinds, form }: Reference, value: unknown, names: Names): unknown {
  if (value === null && kinds.length === 0) return null
  const one = (each: unknown): string => {
    if (typeof each === 'string' && kinds.length === 0 && !isReferableId(each))
      throw fault(place, 'must be an id, or null for none')
    if (typeof each !== 'string') throw fault(place, `must be a name from ${kinds.join(' or ')}`)
    const [kind, other] = kinds.filter((candidate) => names[candidate]?.has(each))
    if (other) throw fault(place, `refers to '${each}', which is in ${kind} and in ${other}; rename one of them`)
    if (kind) return markOf(kind, each)
    // The id of a resource outside the file.
    if (isReferableId(each)) return each
    throw fault(place, `refers to '${each}', which is not in ${kinds.join(' or ')}`)
  }
  if (form === 'one') return one(value)
  if (form === 'list') return asList(place, value).map(one)
  return Object.fromEntries(Object.entries(asObject(place, value)).map(([name, each]) => [one(name), each]))
}

function checkType(place: Place, schema: Schema, value: unknown): void {
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

function readRule(place: Place, value: unknown, collect: Faults['collect']): Rule {
  if (typeof value === 'string') {
    const [action = '', cidr = '', ...more] = value.trim().split(/\s+/)
    if (!['allow', 'deny'].includes(action) || !cidr || more.length)
      throw fault(place, "must be 'allow CIDR', 'deny CIDR', or {allow: CIDR, description: …}")
    return checkedRule(place, { action, cidr }, collect)
  }
  const { allow, deny, ...rest } = asObject(place, value)
  const action = allow === undefined ? 'deny' : 'allow'
  const cidr = allow ?? deny
  if (typeof cidr !== 'string' || (allow !== undefined && deny !== undefined))
    throw fault(place, 'must have allow or deny, with a range')
  for (const [name, each] of Object.entries(rest)) {
    if (!['description', 'metadata', 'expires_at'].includes(name)) throw fault([...place, name], 'is an unknown field')
    checkType([...place, name], { type: ['string', 'null'] }, each)
  }
  return checkedRule(place, { ...rest, action, cidr }, collect)
}

function checkedRule(place: Place, rule: Json, collect: Faults['collect']): Rule {
  const { cidr, action, ...rest } = rule
  const { cidr: range = {}, ...properties } = ruleSchema.properties ?? {}
  // The position of the range depends on how the rule is written.
  checkValue(place, deref<Schema>(range), cidr, collect)
  checkValue(place, { properties }, rest, collect)
  return normalize(ruleSchema, rule) as Rule
}
