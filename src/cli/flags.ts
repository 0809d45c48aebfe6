import { readFileSync } from 'node:fs'
import { type ParseArgsConfig, parseArgs } from 'node:util'
import { closest } from '../kernel/closest.ts'
import { type Failure, usageFailure } from './exits.ts'

type Kind = 'text' | 'number' | 'boolean' | 'list' | 'map' | 'json' | 'file' | 'files'
export type Flag = {
  /** Without the dashes: `ip-policy-ids`, or `tls.enabled` for a nested field. */
  readonly name: string
  readonly place: 'query' | 'header' | 'body'
  /** The target of the value: the parameter's name, or the path into the body. */
  readonly path: readonly string[]
  readonly kind: Kind
  /** `--no-…` then sets null. */
  readonly nullable: boolean
  readonly required: boolean
  readonly description: string
  readonly choices?: readonly string[]
  /** Set for a map whose values are numbers. */
  readonly numeric?: true
  /** For a list or map: the singular name for one value at a time, such as `scope`. */
  readonly singular?: string
  /** For a number of seconds: the flag that takes a duration, such as 10m. */
  readonly asDuration?: string
}

/** No flag sets these, because every user of a machine can see process arguments. They go into --data. */
export const secretFields: readonly string[] = ['token']

/** The command's own flags, for every operation that they apply to. */
export const commandFlags = {
  output: { type: 'string', short: 'o', value: 'table|json|yaml|ids|text', help: 'Output format.' },
  columns: {
    type: 'string',
    value: 'NAME,…|all',
    help: 'Fields to show as columns of the table, in this order.',
  },
  filter: {
    type: 'string',
    multiple: true,
    value: 'FIELD=VALUE',
    help: 'Show only rows with this value; also FIELD!=VALUE, and FIELD~PART for a part of it. Can be repeated. Implies --all.',
  },
  'sort-by': { type: 'string', value: '[-]FIELD', help: 'Sort rows by a field; - reverses. Implies --all.' },
  template: {
    type: 'string',
    value: 'TEXT',
    help: "Print TEXT for each row, with values for fields in braces, such as '{id} {tls.enabled}'.",
  },
  watch: { type: 'boolean', help: 'Repeat every 2 seconds until Ctrl-C, and print what has changed.' },
  all: { type: 'boolean', help: 'Fetch every page of the list, not only the first.' },
  data: {
    type: 'string',
    value: 'JSON|@FILE|-',
    help: 'Request body: inline, from a file, or from standard input. Other flags override its fields.',
  },
  file: { type: 'string', value: 'FILE', help: 'Request body from a file. Same as --data @FILE.' },
  profile: {
    type: 'string',
    value: 'NAME',
    help: 'Profile to use instead of the environment or the current profile.',
  },
  'min-nodes': {
    type: 'string',
    value: 'N',
    help: 'With --wait applied: how many edge nodes must be live and have applied the change. Default: 1.',
  },
  timeout: { type: 'string', value: 'SECONDS', help: 'Timeout per request. Default: 60.' },
  yes: { type: 'boolean', short: 'y', help: 'Do not ask for confirmation.' },
  verbose: { type: 'boolean', short: 'v', help: 'Print each request and its operation id to standard error.' },
  help: { type: 'boolean', short: 'h', help: 'Show this help.' },
} as const
export type CommandFlag = keyof typeof commandFlags
type ValueOf<Flag> = Flag extends { type: 'boolean' } ? boolean : Flag extends { multiple: true } ? string[] : string
type CommandValues = { [K in CommandFlag]?: ValueOf<(typeof commandFlags)[K]> }

export type Typed = {
  positionals: string[]
  command: CommandValues
  /** Values of the operation's own flags, as JSON values. */
  given: { flag: Flag; value: unknown }[]
}

type ParseOptions = Record<string, { type: 'string' | 'boolean'; multiple?: boolean; short?: string }>

export function readFlags(args: string[], flags: readonly Flag[], usable: readonly CommandFlag[]): Typed {
  const options: ParseOptions = {}
  for (const name of usable) {
    const { type, ...rest } = commandFlags[name]
    options[name] = { type, ...('short' in rest && { short: rest.short }), multiple: 'multiple' in rest }
  }
  for (const { name, singular, asDuration, kind, nullable } of flags) {
    for (const other of [singular, asDuration]) if (other) options[other] = { type: 'string', multiple: true }
    options[name] = kind === 'boolean' ? { type: 'boolean' } : { type: 'string', multiple: true }
    if (kind === 'boolean' || nullable) options[`no-${name}`] = { type: 'boolean' }
  }
  const { values, positionals } = parse(args, options)
  const given = flags.flatMap((flag) => {
    const value = givenUnder(flag, values)
    const isOff = values[`no-${flag.name}`] === true
    if (isOff && value !== undefined) throw usageFailure(`--${flag.name} and --no-${flag.name} cannot be combined`)
    if (isOff) return [{ flag, value: flag.kind === 'boolean' ? false : null }]
    const duration = flag.asDuration === undefined ? undefined : values[flag.asDuration]
    if (duration !== undefined && value !== undefined)
      throw usageFailure(`--${flag.name} and --${flag.asDuration} cannot be combined`)
    if (duration !== undefined)
      return [{ flag, value: toSeconds(flag.asDuration ?? '', String([duration].flat().at(-1))) }]
    if (value === undefined) return []
    return [{ flag, value: value === true ? true : toValue(flag, value as string[]) }]
  })
  const command = Object.fromEntries(usable.map((name) => [name, values[name]])) as CommandValues
  return { positionals, command, given }
}

/** A list may use both of its names. */
function givenUnder({ name, singular }: Flag, values: ReturnType<typeof parse>['values']) {
  const one = singular === undefined ? undefined : values[singular]
  return one === undefined ? values[name] : [values[name] ?? [], one].flat()
}

export function parse(args: string[], options: ParseOptions) {
  try {
    return parseArgs({ args, options, allowPositionals: true }) as {
      values: Record<string, string | boolean | (string | boolean)[] | undefined>
      positionals: string[]
    }
  } catch (cause) {
    // Node's message continues with how to write a positional that begins with a dash.
    const [what = ''] = (cause as Error).message.split(/\. (?=[A-Z])/)
    const [, unknown] = /^Unknown option '--([^']+)'/.exec(what) ?? []
    const meant = unknown && closest(unknown, Object.keys(options))
    throw usageFailure(what, ...(meant ? [`Did you mean --${meant}?`] : []))
  }
}

/** Flags of every command besides operations that calls the API. */
export const callFlags = {
  profile: { type: 'string' },
  timeout: { type: 'string' },
  verbose: { type: 'boolean', short: 'v' },
  help: { type: 'boolean', short: 'h' },
} as const

/** For commands besides operations: parses the declared flags, and answers a mistake with the usage. */
export function parseOwn<Config extends ParseArgsConfig>(config: Config, usage: string) {
  try {
    return parseArgs(config)
  } catch (error) {
    throw usageFailure((error as Error).message, ...usage.split('\n'))
  }
}

function toNumber(name: string, text: string): number {
  const number = Number(text)
  if (text.trim() === '' || !Number.isFinite(number)) throw usageFailure(`--${name} must be a number, not '${text}'`)
  return number
}

const secondsIn: Readonly<Record<string, number>> = { s: 1, m: 60, h: 60 * 60, d: 24 * 60 * 60 }

export function toSeconds(name: string, text: string): number {
  const [, number, unit = ''] = /^(\d+)([a-z])$/.exec(text) ?? []
  const seconds = secondsIn[unit]
  if (number !== undefined && seconds !== undefined) return Number(number) * seconds
  throw usageFailure(`--${name} must be a duration such as 90s, 10m or 2h, not '${text}'`)
}

/** Rejects wrong enumeration values before anything is sent. */
function toValue(flag: Flag, texts: string[]): unknown {
  const value = readValue(flag, texts)
  const { name, choices } = flag
  for (const each of choices ? [value].flat() : [])
    if (choices && !choices.includes(String(each))) throw notAmong(`--${name}`, String(each), choices)
  return value
}

/** For an unknown value: lists the known ones, and suggests the likely one. */
export function notAmong(what: string, text: string, known: readonly string[]): Failure {
  const meant = closest(text, known)
  return usageFailure(
    `${what} must be one of ${known.join(', ')}, not '${text}'`,
    ...(meant ? [`Did you mean ${meant}?`] : []),
  )
}

function readValue({ name, kind, numeric }: Flag, texts: string[]): unknown {
  const [text = ''] = texts.slice(-1)
  switch (kind) {
    case 'number':
      return toNumber(name, text)
    case 'list':
      return texts
        .flatMap((each) => (each.startsWith('[') ? (fromJson(name, each) as string[]) : each.split(',')))
        .filter((each) => each !== '')
    case 'map':
      return Object.fromEntries(texts.flatMap((each) => entriesOf(name, each, numeric)))
    case 'json':
      return fromJson(name, text)
    case 'file':
      return fromFile(name, text)
    case 'files':
      return texts.flatMap((file) => pemIn(fromFile(name, file)))
    default:
      return text
  }
}

function entriesOf(name: string, text: string, numeric?: true): [string, unknown][] {
  if (text.startsWith('{')) return Object.entries(fromJson(name, text) as object)
  const [, key, value] = /^([^=]+)=(.*)$/s.exec(text) ?? []
  if (key === undefined)
    throw usageFailure(`--${name} must be ${numeric ? 'ID=NUMBER' : 'NAME=VALUE'} or a JSON object, not '${text}'`)
  return [[key, numeric ? toNumber(`${name} ${key}`, value ?? '') : value]]
}

function fromJson(name: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw usageFailure(`--${name} must be JSON, not '${text.slice(0, 60)}'`)
  }
}

function fromFile(name: string, file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw usageFailure(`--${name}: ${file} cannot be read: ${(cause as Error).message}`)
  }
}

/** A file may have several certificates. The service refuses anything else. */
const pemIn = (text: string): string[] => text.match(/-----BEGIN [^-]+-----[^-]+-----END [^-]+-----\n?/g) ?? [text]

export function placeholderOf({ kind, choices, name, numeric }: Flag): string {
  if (choices) return choices.join('|')
  const word = name.split('.').at(-1)?.toUpperCase() ?? ''
  return {
    text: word,
    number: 'N',
    boolean: '',
    list: `${word},…`,
    map: numeric ? 'ID=NUMBER' : 'NAME=VALUE',
    json: 'JSON',
    file: 'FILE',
    files: 'FILE',
  }[kind]
}
