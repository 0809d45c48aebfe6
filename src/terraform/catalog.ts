// Derives resources and data sources from the operations in openapi.json.
import { componentOf, type DocumentOperation, deref, type Parameter, paths, type Schema } from '../cli/document.ts'
import { argumentField, type Field, inputFields, outputFields, type Shape, versionOf } from './fields.ts'

export type Action = { readonly method: string; readonly path: string; readonly parameters: ReadonlySet<string> }
export type Resource = {
  readonly typeName: string
  readonly description: string
  readonly fields: readonly Field[]
  /** Path parameters, ending with `id`. */
  readonly key: readonly string[]
  readonly create: Action & { readonly fields: ReadonlySet<string> }
  readonly read: Action
  readonly update?: Action & {
    readonly fields: ReadonlySet<string>
    /** Fields that must be sent together. */
    readonly together: Readonly<Record<string, readonly string[]>>
  }
  readonly delete: Action
}
export type DataSource = {
  readonly typeName: string
  readonly description: string
  readonly fields: readonly Field[]
  readonly read: Action
  readonly listField?: string
}

const typePrefix = 'gatehouse_'
const singular = (name: string): string => name.replace(/ies$/, 'y').replace(/s$/, '')
const pathParameters = (path: string): string[] => [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)

const parametersOf = ({ parameters }: DocumentOperation): Parameter[] =>
  parameters.map((parameter) => deref<Parameter>(parameter))
const toAction = (method: string, path: string, operation: DocumentOperation): Action => ({
  method: method.toUpperCase(),
  path,
  parameters: new Set(parametersOf(operation).map(({ name }) => name)),
})
const bodyOf = ({ requestBody }: DocumentOperation): Schema =>
  deref<Schema>(requestBody?.content['application/json']?.schema ?? {})
const responseOf = ({ responses }: DocumentOperation): Schema =>
  Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1].content?.['application/json']?.schema ?? {}

const without = ({ properties = {}, required = [] }: Shape, names: readonly string[]): Shape => ({
  properties: Object.fromEntries(Object.entries(properties).filter(([name]) => !names.includes(name))),
  required,
})

/** Drafts of changes, for which Terraform has its own plans. */
const notDeclared = new Set(['change_sets'])

/** Everything that can be created, read and deleted by id. Modules of edges are fields, not resources. */
export function resources(): Resource[] {
  return Object.entries(paths()).flatMap(([path, { post, get: list }]) => {
    const [group = '', verb] = post?.operationId.split('.') ?? []
    const itemPath = `${path}/{id}`
    const { get, patch, delete: remove } = paths()[itemPath] ?? {}
    if (!post || verb !== 'create' || !list || !get || !remove || notDeclared.has(group)) return []
    const key = pathParameters(itemPath)
    return [
      {
        typeName: typePrefix + singular(group),
        description: post.summary,
        key,
        fields: resourceFields(key, post, patch),
        create: { ...toAction('post', path, post), fields: fieldNames(post, key) },
        read: toAction('get', itemPath, get),
        ...(patch && {
          update: {
            ...toAction('patch', itemPath, patch),
            fields: fieldNames(patch, key),
            together: bodyOf(patch).dependentRequired ?? {},
          },
        }),
        delete: toAction('delete', itemPath, remove),
      },
    ]
  })
}

const fieldNames = (operation: DocumentOperation, key: readonly string[]): ReadonlySet<string> =>
  new Set(Object.keys(without(bodyOf(operation), key).properties ?? {}))

function resourceFields(
  key: readonly string[],
  create: DocumentOperation,
  update: DocumentOperation | undefined,
): Field[] {
  const response = deref<Schema>(responseOf(create))
  const created = inputFields(without(bodyOf(create), key), response)
  const names = created.map(({ name }) => name)
  const updated = update ? inputFields(without(bodyOf(update), [...key, ...names]), response) : []
  const changeable = update ? fieldNames(update, key) : new Set()
  const inputs = [...created, ...updated].map((field) => ({ ...field, isFixed: !changeable.has(field.name) }))
  const parents = key.slice(0, -1).map((name) => argumentField(name, response.properties?.[name] ?? {}, true))
  const taken = [...inputs, ...parents].flatMap(({ name, shown }) => [name, shown])
  return [
    ...parents,
    ...inputs,
    ...inputs.filter(({ isWriteOnly }) => isWriteOnly).map(versionOf),
    ...outputFields(without(response, taken), { isLasting: true }),
  ]
}

/** They select a page of a list, but the provider reads all pages. */
const pageParameters = ['limit', 'before_id', 'before']
/** Sessions belong to browsers. */
const notForTerraform = ['dashboard_session']

/** All readable resources: `x.get` under the singular name, `x.list` under the plural. */
export function dataSources(): DataSource[] {
  return Object.entries(paths()).flatMap(([path, { get }]) => {
    const [group = '', verb = '', ...more] = get?.operationId.split('.') ?? []
    if (!get || more.length || !['get', 'list'].includes(verb) || notForTerraform.includes(group)) return []
    const response = deref<Schema>(responseOf(get))
    const listField = componentOf(responseOf(get)).endsWith('List')
      ? Object.entries(response.properties ?? {}).find(([, { type }]) => type === 'array')?.[0]
      : undefined
    const inPath = pathParameters(path)
    const query = parametersOf(get).filter(({ in: place, name }) => place === 'query' && !pageParameters.includes(name))
    const read = toAction('get', path, get)
    const fields = [
      ...inPath.map((name) => argumentField(name, { type: 'string' }, true)),
      ...query.map(({ name, description = '', schema, required = false }) =>
        argumentField(name, { ...schema, description }, required),
      ),
      ...outputFields(
        without(response, [
          ...inPath,
          ...query.map(({ name }) => name),
          ...(listField ? ['uri', 'next_page_uri'] : []),
        ]),
        { isLasting: false },
      ),
    ]
    const typeName = typePrefix + (verb === 'list' ? group : singular(group))
    return [{ typeName, description: get.summary, fields, read, ...(listField && { listField }) }]
  })
}
