// The generated parts of docs/: the text between `<!-- name -->` and `<!-- end of name -->` in a page.
import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { exits } from '../src/cli/exits.ts'
import { operations } from '../src/cli/operations.ts'
import { stateSchema } from '../src/cli/state/schema.ts'
import { clientSettings } from '../src/config/client.ts'
import { edgeSettings } from '../src/config/edge.ts'
import { settings } from '../src/config/server.ts'
import type { Setting } from '../src/config/setting.ts'
import { leastRole } from '../src/http/route.ts'
import { roles } from '../src/identity/caller.ts'
import { routes } from '../src/resources/routes.ts'
import { serverForms } from '../src/server_commands.ts'
import { limitRows, quotaRows } from './limits.ts'

const read = (file: string) => readFile(new URL(`../${file}`, import.meta.url), 'utf8')

const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n')

const settingsTable = (known: Record<string, Setting<unknown>>): string =>
  table(
    ['variable', 'default', 'meaning'],
    Object.entries(known).map(([name, { default: fallback, help, secret }]) => [
      `\`${name}\`${secret ? ` (or \`${name}_FILE\`)` : ''}`,
      fallback === undefined ? 'required' : fallback || 'empty',
      help,
    ]),
  )

function operationsTable(): string {
  const columns = roles.toReversed()
  const rows = routes.map((route) => [
    `\`${route.operation}\``,
    `\`${route.method} ${route.path.replaceAll(/:(\w+)/g, '{$1}')}\``,
    ...columns.map((role) => mark(route, role)),
  ])
  return table(['operation', 'request', ...columns], rows)
}

function mark(route: (typeof routes)[number], role: (typeof roles)[number]): string {
  if (roles.indexOf(role) > roles.indexOf(leastRole(route))) return 'no'
  return role !== 'admin' && route.adminsOnly ? 'some' : 'yes'
}

const clientCommands = (): string =>
  table(
    ['command', 'does', 'operation'],
    operations.map(({ words, positionals, summary, id }) => [
      `\`${['gatehouse', ...words, ...positionals.map(({ name }) => `<${name}>`)].join(' ')}\``,
      summary.replaceAll('|', '\\|'),
      `\`${id}\``,
    ]),
  )

type FieldSchema = {
  type?: string | string[]
  description?: string
  required?: string[]
  properties?: Record<string, FieldSchema>
  additionalProperties?: FieldSchema | boolean
  items?: FieldSchema
  enum?: unknown[]
}

/** A section of a state file becomes a heading, and its fields become rows. Nested fields are named with a dot. */
function stateFileFields(): string {
  const { properties = {} } = stateSchema() as FieldSchema
  return Object.entries(properties)
    .filter(([name]) => name !== 'gatehouse')
    .map(([name, { additionalProperties }]) => {
      const rows = fieldRows(additionalProperties as FieldSchema)
      return `### \`${name}\`\n\n${table(['field', 'type', 'meaning'], rows)}`
    })
    .join('\n\n')
}

function fieldRows({ properties = {}, required = [] }: FieldSchema, prefix = ''): string[][] {
  return Object.entries(properties).flatMap(([name, field]) => {
    const inner = field.properties ?? (name === 'routes' ? field.items?.properties : undefined)
    const row = [
      `\`${prefix}${name}\`${required.includes(name) ? ' (required)' : ''}`,
      typeOf(field),
      (field.description ?? '').replaceAll('|', '\\|'),
    ]
    const group = { properties: inner, required: (field.required ?? field.items?.required) as string[] }
    return [row, ...(inner ? fieldRows(group as FieldSchema, `${prefix}${name}${field.items ? '[]' : ''}.`) : [])]
  })
}

function typeOf({ type, enum: values, items }: FieldSchema): string {
  if (values) return values.map((value) => `\`${value}\``).join(', ')
  const names = [type ?? 'any'].flat().filter((name) => name !== 'null')
  return names
    .map((name) => (name === 'array' && items?.type ? `list of ${[items.type].flat()[0]}s` : name))
    .join(' or ')
}

const languages: Record<string, string> = {
  '.yaml': 'yaml',
  '.yml': 'yaml',
  '.env': 'ini',
  '.mjs': 'js',
  '.ts': 'ts',
  '.py': 'python',
  '.go': 'go',
}
const example = async (file: string): Promise<string> =>
  `\`\`\`${languages[extname(file)] ?? ''}\n${(await read(file)).trimEnd()}\n\`\`\``

const deployed = (file: string): [string, () => Promise<string>] => [
  `example: ${file}`,
  async () => (await example(file)).replace(/^```\n/, '```text\n'),
]

/** The generated parts by page: each with its name and text. */
const parts: Record<string, Record<string, () => string | Promise<string>>> = {
  'docs/reference/roles-and-scopes.md': { operations: operationsTable },
  'docs/reference/settings.md': {
    'control plane': () => settingsTable(settings),
    'edge nodes': () => settingsTable(edgeSettings),
    'command line': () => settingsTable(clientSettings),
  },
  'docs/reference/cli.md': {
    'server commands': () =>
      table(
        ['command', 'does'],
        serverForms().map(([typed, does]) => [`\`gatehouse ${typed}\``, does]),
      ),
    'exit codes': () =>
      table(
        ['code', 'means'],
        Object.values(exits).map(({ code, means }) => [String(code), means]),
      ),
  },
  'docs/reference/commands.md': { commands: clientCommands },
  'docs/reference/state-file.md': { fields: stateFileFields },
  'docs/reference/limits-and-retention.md': {
    limits: () => table(['what', 'limit'], limitRows()),
    quotas: () => table(['what an account stores', 'default', 'setting'], quotaRows()),
  },
  'docs/operate/high-availability.md': Object.fromEntries(
    ['etcd.env', 'patroni.yml', 'nats.conf', 'database-url', 'gatehouse.env', 'haproxy.cfg', 'keepalived.conf'].map(
      (name) => deployed(`deploy/high-availability/${name}`),
    ),
  ),
  'docs/operate/regions.md': Object.fromEntries([deployed('deploy/nats/leaf.conf')]),
  ...Object.fromEntries(
    Object.entries({
      'docs/guides/put-tls-in-front.md': ['proxies/nginx.conf', 'proxies/haproxy.cfg', 'proxies/Caddyfile'],
      'docs/guides/state-files-in-ci.md': ['ci/github-actions.yaml'],
      'docs/guides/terraform.md': ['terraform/main.tf'],
      'docs/guides/clients.md': ['clients/quickstart.ts', 'clients/quickstart.py', 'clients/quickstart.go'],
      'docs/guides/webhooks.md': ['webhooks/receiver.mjs', 'webhooks/receiver.py'],
    }).map(([page, files]) => [
      page,
      Object.fromEntries(files.map((file) => [`example: examples/${file}`, () => example(`examples/${file}`)])),
    ]),
  ),
}

export async function generatedDocs(): Promise<Record<string, string>> {
  const made: Record<string, string> = {}
  for (const [file, named] of Object.entries(parts)) {
    let page = await read(file)
    for (const [name, text] of Object.entries(named)) page = filled(file, page, name, await text())
    made[file] = page
  }
  return made
}

function filled(file: string, page: string, name: string, text: string): string {
  const [begin, end] = [`<!-- ${name} -->\n`, `<!-- end of ${name} -->`]
  const [before, rest] = page.split(begin)
  const [, after] = (rest ?? '').split(end)
  if (before === undefined || after === undefined) throw new Error(`${file} has lost the marks around '${name}'`)
  return `${before}${begin}${text}\n${end}${after}`
}
