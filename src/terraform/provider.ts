// The calls of plugin protocol 6.
import { Failure } from '../cli/exits.ts'
import type { ClientConfig } from '../cli/profiles.ts'
import type { Api } from './api.ts'
import { type DataSource, dataSources, type Resource, resources } from './catalog.ts'
import { attributesOf, createResource, deleteResource, type Outcome, readResource, updateResource } from './changes.ts'
import { configure, providerSchema } from './configuration.ts'
import { attribute, diagnosticsOf } from './diagnostics.ts'
import { decode, encode, isObject, type Value } from './message_pack.ts'
import { plan } from './plan.ts'
import type { Handler } from './plugin.ts'
import { toSchema } from './schema.ts'
import { configFaults, writeOnlyFaults } from './validation.ts'
import { type Json, type State, toState, upgraded } from './values.ts'

type Encoded = { msgpack: Buffer } | null
const encoded = (value: Value): { msgpack: Buffer } => ({ msgpack: encode(value) })
/** Null for a resource that does not exist. */
function decoded(value: Encoded): State | null {
  const read = value?.msgpack.length ? decode(value.msgpack) : null
  return isObject(read) ? read : null
}

export function providerHandlers(readConfig: () => ClientConfig): Record<string, Handler> {
  const [resourceTypes, dataTypes] = [byType(resources()), byType(dataSources())]
  const stopping = new AbortController()
  let api: Api | undefined
  const connected = (): Api => {
    if (api) return api
    throw new Failure('usage', "The provider's configuration is only known after apply.", [
      'Apply what it depends on first: terraform apply -target=ADDRESS',
    ])
  }
  return {
    async GetProviderSchema() {
      return {
        provider: providerSchema,
        resource_schemas: schemasOf(resourceTypes),
        data_source_schemas: schemasOf(dataTypes),
        server_capabilities: { get_provider_schema_optional: true },
      }
    },
    ValidateProviderConfig: async () => ({}),
    async ValidateResourceConfig({ type_name, config, client_capabilities }) {
      const { fields } = find(resourceTypes, type_name)
      const given = decoded(config) ?? {}
      const canHoldBack = client_capabilities?.write_only_attributes_allowed === true
      return { diagnostics: [...configFaults(fields, given), ...(canHoldBack ? [] : writeOnlyFaults(fields, given))] }
    },
    async ValidateDataResourceConfig({ type_name, config }) {
      return { diagnostics: configFaults(find(dataTypes, type_name).fields, decoded(config) ?? {}) }
    },
    async UpgradeResourceState({ type_name, raw_state }) {
      const stored = JSON.parse(raw_state.json.toString()) as Json
      return { upgraded_state: encoded(upgraded(find(resourceTypes, type_name).fields, stored)) }
    },
    ConfigureProvider: ({ config }) =>
      withDiagnostics(async () => {
        api = await configure(readConfig, decoded(config) ?? {}, stopping.signal)
        return {}
      }),
    ReadResource: ({ type_name, current_state }) =>
      withDiagnostics(async () => {
        const resource = find(resourceTypes, type_name)
        return { new_state: encoded(await readResource(connected(), resource, decoded(current_state) ?? {})) }
      }),
    async PlanResourceChange({ type_name, prior_state, proposed_new_state, config }) {
      const [wanted, prior] = [decoded(config), decoded(prior_state)]
      if (!wanted || !decoded(proposed_new_state)) return { planned_state: encoded(null) }
      const { planned, replacing } = plan(find(resourceTypes, type_name).fields, wanted, prior ?? undefined)
      return { planned_state: encoded(planned), requires_replace: replacing.map(attribute) }
    },
    async ApplyResourceChange({ type_name, ...change }) {
      const resource = find(resourceTypes, type_name)
      const [prior, planned, config] = [change.prior_state, change.planned_state, change.config].map(decoded)
      try {
        const { state, diagnostics } = await apply(connected(), resource, prior, planned, config)
        return { new_state: encoded(state), diagnostics }
      } catch (error) {
        return { new_state: encoded(prior ?? null), diagnostics: diagnosticsOf(error, attributesOf(resource)) }
      }
    },
    ImportResourceState: ({ type_name, id }) =>
      withDiagnostics(async () => {
        const state = encoded(importedState(find(resourceTypes, type_name), id))
        return { imported_resources: [{ type_name, state }] }
      }),
    ReadDataSource: ({ type_name, config }) => {
      const source = find(dataTypes, type_name)
      return withDiagnostics(async () => {
        return { state: encoded(await readDataSource(connected(), source, decoded(config) ?? {})) }
      }, attributesOf(source))
    },
    async StopProvider() {
      stopping.abort()
      return {}
    },
  }
}

const byType = <T extends { typeName: string }>(types: readonly T[]): ReadonlyMap<string, T> =>
  new Map(types.map((type) => [type.typeName, type]))

function find<T>(types: ReadonlyMap<string, T>, name: string): T {
  const found = types.get(name)
  if (!found) throw new Error(`there is no ${name}`)
  return found
}

const schemasOf = (types: ReadonlyMap<string, Resource | DataSource>): object =>
  Object.fromEntries([...types].map(([name, { fields, description }]) => [name, toSchema(fields, description)]))

async function withDiagnostics(work: () => Promise<object>, attributes: readonly string[] = []): Promise<object> {
  try {
    return await work()
  } catch (error) {
    return { diagnostics: diagnosticsOf(error, attributes) }
  }
}

function apply(
  api: Api,
  resource: Resource,
  prior: State | null | undefined,
  planned: State | null | undefined,
  config: State | null | undefined,
): Promise<Outcome> {
  if (!planned) return deleteResource(api, resource, prior ?? {})
  const wanted = config ?? {}
  return prior
    ? updateResource(api, resource, { prior, planned, config: wanted })
    : createResource(api, resource, planned, wanted)
}

/** Sets only the key; Terraform reads the rest. */
function importedState({ typeName, fields, key }: Resource, id: string): State {
  const parts = id.split('/')
  if (parts.length !== key.length || parts.includes(''))
    throw new Failure('usage', `'${id}' does not identify a ${typeName}.`, [`Import it as ${key.join('/')}.`])
  const ids = Object.fromEntries(key.map((name, index) => [name, parts[index] ?? '']))
  return Object.fromEntries(fields.map(({ name }) => [name, ids[name] ?? null]))
}

async function readDataSource(api: Api, { read, fields, listField }: DataSource, config: State): Promise<State> {
  const given = fields.filter(({ name, isInput }) => isInput && (config[name] ?? null) !== null)
  const query = Object.fromEntries(
    given.filter(({ name }) => !read.path.includes(`{${name}}`)).map(({ name }) => [name, config[name]]),
  )
  const answer = listField
    ? await api.list(read, config, listField, query)
    : (await api.send(read, config, { query })).body
  return toState(fields, answer, config)
}
