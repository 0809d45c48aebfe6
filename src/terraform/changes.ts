// API calls that bring a resource to its planned state.
import { isDeepStrictEqual } from 'node:util'
import { Refused } from '../cli/call.ts'
import { Failure } from '../cli/exits.ts'
import type { Api } from './api.ts'
import type { Resource } from './catalog.ts'
import { type Diagnostic, diagnosticsOf, warningOf } from './diagnostics.ts'
import { unknownValue, type Value } from './message_pack.ts'
import { type Json, known, knownState, type State, toSent, toState } from './values.ts'

export type Outcome = { readonly state: State | null; readonly diagnostics: readonly Diagnostic[] }

export const attributesOf = ({ fields }: Pick<Resource, 'fields'>): string[] => fields.map(({ name }) => name)

/** Not every 404: for an unknown path, because of an older service or a wrong URL, nothing was deleted. */
const isGone = (error: unknown): boolean => error instanceof Refused && error.code === 'ERR_NOT_FOUND'

/** Null if the resource does not exist. */
export async function readResource(api: Api, { read, fields }: Resource, state: State): Promise<State | null> {
  try {
    return toState(fields, (await api.send(read, state)).body, state)
  } catch (error) {
    if (isGone(error)) return null
    throw error
  }
}

export async function createResource(api: Api, resource: Resource, planned: State, config: State): Promise<Outcome> {
  const { create, update, fields } = resource
  const isGiven = (name: string) => (config[name] ?? null) !== null
  const given = (names: Iterable<string>): Json =>
    Object.fromEntries([...names].filter(isGiven).map((name) => [name, toSent(config[name] ?? null)]))
  const { body, warnings } = await api.send(create, planned, { body: given(create.fields) })
  let state: State
  try {
    state = toState(fields, body, planned)
  } catch (error) {
    // The resource was created: without its id, Terraform would lose track of it.
    return { state: { ...knownState(planned), id: String(body.id) }, diagnostics: diagnosticsOf(error) }
  }
  const lost = fields.filter(({ name, isShownOnce }) => isShownOnce && state[name] === null).map(lostSecret)
  const diagnostics = [...warnings, ...lost].map(warningOf)
  const onlyLater = [...(update?.fields ?? [])].filter((name) => !create.fields.has(name) && isGiven(name))
  if (!update || onlyLater.every((name) => isDeepStrictEqual(config[name], state[name]))) return { state, diagnostics }
  try {
    const changed = await api.send(update, state, { body: given(onlyLater) })
    return { state: toState(fields, changed.body, state), diagnostics }
  } catch (error) {
    return { state, diagnostics: [...diagnostics, ...diagnosticsOf(error, attributesOf(resource))] }
  }
}

const lostSecret = ({ name }: { name: string }): Failure =>
  new Failure('unreachable', `An earlier attempt created it, and its ${name} is not shown again.`, [
    'To get a new one, replace the resource: terraform apply -replace=ADDRESS',
  ])

export async function updateResource(
  api: Api,
  { update, read, fields }: Resource,
  { prior, planned, config }: { prior: State; planned: State; config: State },
): Promise<Outcome> {
  const isChanged = (name: string) =>
    planned[name] !== unknownValue && !isDeepStrictEqual(planned[name], prior[name] ?? null)
  const sent = new Set(fields.map(({ name }) => name).filter((name) => update?.fields.has(name) && isChanged(name)))
  for (const { name, isWriteOnly } of fields) if (isWriteOnly && isChanged(`${name}_version`)) sent.add(name)
  for (const name of sent) for (const other of update?.together[name] ?? []) sent.add(other)
  const body = Object.fromEntries([...sent].map((name) => [name, toSent(sentValue(name, planned, config))]))
  const { body: answer, warnings } = await api.send(
    update && sent.size ? update : read,
    prior,
    update && sent.size ? { body } : {},
  )
  return { state: toState(fields, answer, planned), diagnostics: warnings.map(warningOf) }
}

/** Write-only values occur only in the configuration. */
const sentValue = (name: string, planned: State, config: State): Value => planned[name] ?? known(config[name] ?? null)

export async function deleteResource(api: Api, resource: Resource, prior: State): Promise<Outcome> {
  try {
    const { warnings } = await api.send(resource.delete, prior)
    return { state: null, diagnostics: warnings.map(warningOf) }
  } catch (error) {
    if (isGone(error)) return { state: null, diagnostics: [] }
    throw error
  }
}
