// Sample calls of each operation for the API reference: curl, the command line and TypeScript. They are not in
// openapi.json, which every client loads and which would grow by half.
import { deref, type Parameter, paths } from '../../src/cli/document.ts'
import type { Flag } from '../../src/cli/flags.ts'
import type { Operation } from '../../src/cli/operation.ts'
import { operations } from '../../src/cli/operations.ts'

type Json = Record<string, unknown>
type Example = { path: string; body?: Json }
export type Sample = { readonly label: string; readonly source: string }

/** By method and path, as in `POST /api_keys`. */
export const samples = (): Record<string, Sample[]> =>
  Object.fromEntries(operations.map((operation) => [`${operation.method} ${operation.path}`, samplesOf(operation)]))

function samplesOf(operation: Operation): Sample[] {
  const example = exampleOf(operation)
  return [
    { label: 'curl', source: curl(operation, example) },
    { label: 'Command line', source: ['gatehouse', ...commandOf(operation, example).map(quoted)].join(' ') },
    { label: 'TypeScript', source: typescript(operation, example) },
  ]
}

/** The example request of openapi.json, which test/reference.test.ts sends. */
export function exampleOf({ path, method }: Operation): Example {
  const found = paths()[path]?.[method.toLowerCase()]
  const parameters = (found?.parameters ?? []).map((each) => deref<Parameter & { example?: unknown }>(each))
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name) =>
    String(parameters.find((each) => each.name === name)?.example),
  )
  const required = parameters.filter((each) => each.in === 'query' && each.required)
  const query = required.map(({ name, example, schema }) => `${name}=${example ?? schema.examples?.[0] ?? ''}`)
  const content = found?.requestBody?.content['application/json'] as { example?: Json } | undefined
  return {
    path: filled + (query.length ? `?${query.join('&')}` : ''),
    ...(content?.example && { body: content.example }),
  }
}

/** The arguments of `gatehouse`. Fields become flags if each of them has one; otherwise the body is JSON. */
export function commandOf(operation: Operation, { path, body }: Example): string[] {
  const url = new URL(path, 'http://example')
  const parts = url.pathname.split('/')
  const ids = operation.path.split('/').flatMap((step, index) => (step.startsWith('{') ? (parts[index] ?? '') : []))
  const query = [...url.searchParams].map(([name, value]) => flagged(operation, 'query', name, value))
  const fields = Object.entries(body ?? {}).map(([name, value]) => flagged(operation, 'body', name, value))
  const isPlain = fields.every((each) => each !== undefined)
  const data = body && Object.keys(body).length ? ['--data', JSON.stringify(body)] : []
  return [
    ...operation.words,
    ...ids,
    ...query.flatMap((each) => each ?? []),
    ...(isPlain ? fields.flat() : data),
  ] as string[]
}

function flagged({ flags }: Operation, place: Flag['place'], name: string, value: unknown): string[] | undefined {
  const flag = flags.find((each) => each.place === place && each.path.length === 1 && each.path[0] === name)
  if (!flag) return undefined
  const as = `--${flag.name}`
  if (value === null) return flag.nullable ? [`--no-${flag.name}`] : undefined
  // File contents may be secret, and are never an argument.
  if (flag.kind === 'file' || flag.kind === 'files') return [as, `${name.replace(/_pem$/, '')}.pem`]
  const isList = Array.isArray(value) && value.length > 0 && value.every((each) => /^[^,[]+$/.test(String(each)))
  if (flag.kind === 'boolean') return [value ? as : `--no-${flag.name}`]
  if (flag.kind === 'list') return isList ? [as, value.join(',')] : undefined
  if (flag.kind === 'map') return Object.entries(value as Json).flatMap(([key, each]) => [as, `${key}=${each}`])
  return flag.kind === 'text' || flag.kind === 'number' ? [as, String(value)] : undefined
}

const quoted = (word: string): string => (/^[\w./:=,@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)

const needsToken = (operation: Operation): boolean => !/^dashboard_session\.sign_in$/.test(operation.id)

function curl(operation: Operation, { path, body }: Example): string {
  return [
    `curl ${operation.method === 'GET' ? '' : `-X ${operation.method} `}"$GATEHOUSE_URL${path}"`,
    ...(needsToken(operation) ? ['-H "Authorization: Bearer $GATEHOUSE_API_KEY"'] : []),
    "-H 'Service-Version: 2'",
    ...(body ? ["-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`] : []),
  ].join(' \\\n  ')
}

function typescript(operation: Operation, { path, body }: Example): string {
  const headers = [
    ...(needsToken(operation) ? [`Authorization: \`Bearer \${process.env.GATEHOUSE_API_KEY}\``] : []),
    "'Service-Version': '2'",
    ...(body ? ["'Content-Type': 'application/json'"] : []),
  ]
  const lines = [
    ...(operation.method === 'GET' ? [] : [`  method: '${operation.method}',`]),
    '  headers: {',
    ...headers.map((header) => `    ${header},`),
    '  },',
    ...(body ? [`  body: JSON.stringify(${JSON.stringify(body, null, 2).replaceAll('\n', '\n  ')}),`] : []),
  ]
  const result = operation.fields.length ? '\nconst result = await response.json()' : ''
  return `const response = await fetch(\`\${process.env.GATEHOUSE_URL}${path}\`, {
${lines.join('\n')}
})
if (!response.ok) throw new Error((await response.json()).msg)${result}`
}
