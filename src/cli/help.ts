import { exits } from './exits.ts'
import { type CommandFlag, commandFlags, type Flag, placeholderOf } from './flags.ts'
import type { Operation } from './operation.ts'
import { below, usableFlags } from './operations.ts'
import { outputsOf } from './output/output.ts'
import { styled } from './output/terminal.ts'
import { twoColumns } from './output/two_columns.ts'

const title = (text: string) => styled('bold', text)

const usageOf = ({ words, positionals }: Operation): string =>
  ['gatehouse', ...words, ...positionals.map(({ name }) => `<${name}>`)].join(' ')

function describe(flag: Flag): [string, string] {
  const { name, singular, asDuration, kind, nullable, required, description } = flag
  const value = placeholderOf(flag)
  const left = kind === 'boolean' ? `--[no-]${name}` : `--${name} ${value}`
  const notes = [
    ...(required ? ['required'] : []),
    ...(kind === 'list' ? [`comma-separated or repeated${singular ? `, also as --${singular}` : ''}`] : []),
    ...(kind === 'map' ? [`can be repeated${singular ? `, also as --${singular}` : ''}`] : []),
    ...(asDuration ? [`also as --${asDuration} 10m`] : []),
    ...(nullable && kind !== 'boolean' ? [`--no-${name} clears it`] : []),
  ]
  return [left, [description, ...(notes.length ? [`(${notes.join('; ')})`] : [])].filter(Boolean).join(' ')]
}

const describeCommandFlag = (operation: Operation, name: CommandFlag): [string, string] => {
  const flag: { short?: string; value?: string; help: string } = commandFlags[name]
  const value = name === 'output' ? outputsOf(operation).join('|') : flag.value
  return [`${flag.short ? `-${flag.short}, ` : ''}--${name}${value ? ` ${value}` : ''}`, flag.help]
}

export function helpOf(operation: Operation): string {
  const { summary, positionals, flags, method, path, id, otherBodies } = operation
  const own = flags.map(describe)
  const last = positionals.findLast(({ place }) => place === 'path')
  return [
    `${summary}.`,
    `\n${title('Usage')}\n  ${usageOf(operation)}${own.length ? ' [flags]' : ''}`,
    ...(last ? [`  Use - as <${last.name}> to read ids from standard input, one call per id.`] : []),
    ...(own.length ? [`\n${title('Flags')}\n${twoColumns(own)}`] : []),
    ...(otherBodies.length
      ? [`\nThe body in --data or --file is sent as JSON if it begins with {, and as ${otherBodies} otherwise.`]
      : []),
    `\n${title('Global flags')}\n${twoColumns(usableFlags(operation).map((name) => describeCommandFlag(operation, name)))}`,
    `\n${method} ${path}\n${id} in openapi.json, the log and audit events`,
  ].join('\n')
}

export function helpOfGroup(words: readonly string[]): string {
  const rows = below(words).map((operation): [string, string] => [usageOf(operation), operation.summary])
  return `${title('Commands')}\n${twoColumns(rows)}\n\nRun 'gatehouse ${words.join(' ')} <verb> --help' for details.`
}

/** The API part of `gatehouse --help`. */
export function clientUsage(): string {
  const groups = [...new Set(below([]).map(({ words: [first = ''] }) => first))]
  const rows = groups.map((group): [string, string] => [
    `gatehouse ${group}`,
    [...new Set(below([group]).map(({ words }) => words.slice(1).join(' ')))].join(', ') ||
      (below([]).find(({ words }) => words[0] === group)?.summary ?? ''),
  ])
  return `API client commands (these need GATEHOUSE_URL and GATEHOUSE_API_KEY, or a profile):

${twoColumns([
  ...rows,
  ['gatehouse audit-events export', 'export audit events as JSON Lines'],
  ['gatehouse rollouts watch', 'follow a rollout until it is released or halted'],
  ['gatehouse ip-policies prune', 'remove rules that are covered or unused, after a review'],
  ['gatehouse edges https routes list', 'list the routes of all HTTPS edges, or of one'],
  ['gatehouse … describe, edit', 'show a resource with what it uses; change one in your editor'],
  ['gatehouse explain', 'say what decides about an address, now or at an earlier time'],
  ['gatehouse tail', 'show requests to edges as they happen'],
  ['gatehouse state', 'dump, validate, schema, diff, apply, sync: manage an account as a file'],
  ['gatehouse import ngrok', 'create a state file from an ngrok account'],
  ['gatehouse mcp', 'let an assistant read the account and propose changes'],
  ['gatehouse api METHOD PATH', 'send any request to the API'],
  ['gatehouse auth status', 'show which server and API key are used, and where they are set'],
  ['gatehouse upgrade check', 'compare the versions of this command, the service and the edge nodes'],
  ['gatehouse login, logout', 'sign in with your browser, and out'],
  ['gatehouse profiles', 'add, list, use, remove: manage saved servers and API keys'],
  ['gatehouse completion', 'bash, zsh, fish: print a shell completion script'],
])}

Exit codes:

${twoColumns(Object.values(exits).map(({ code, means }) => [String(code), means]))}
`
}
