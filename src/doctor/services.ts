import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { parseEnv, promisify } from 'node:util'
import { answerTimeoutMs } from './finding.ts'

/** The program of a unit, which determines its checks. */
export type ServiceKind = 'serve' | 'edge' | 'migrate' | 'backup' | 'nats'

/** A systemd unit on this machine and its process's environment, even if it does not run. */
export type Service = {
  unit: string
  kind: ServiceKind | undefined
  /** The process's environment, except that credential files are those that systemd copies from. */
  environment: NodeJS.ProcessEnv
  /** Credentials with a missing file, and the setting that uses each. */
  missingCredentials: { setting: string; file: string }[]
  state: { load: string; active: string; sub: string; result: string; exitStatus: string; atBoot: string }
  /** The hard limit of file descriptors; undefined without a limit. */
  descriptorLimit: number | undefined
  /** The account that writes its files; undefined for a dynamic user. */
  account: Account | undefined
  stateFolder: string | undefined
  commandLine: string
}
export type Account = { name: string; uid: number; gid: number }

const run = promisify(execFile)
const systemctl = async (...args: string[]): Promise<string> =>
  (await run('systemctl', [...args, '--no-pager'], { timeout: answerTimeoutMs, env: { ...process.env, LC_ALL: 'C' } }))
    .stdout

/** Units of the packages, and others with such a name. Empty without systemd. */
export async function gatehouseUnits(): Promise<string[]> {
  const listed = await systemctl('list-unit-files', 'gatehouse*.service', '--no-legend', '--plain').catch(() => '')
  return listed
    .split('\n')
    .map((line) => line.split(/\s+/)[0] ?? '')
    .filter((unit) => unit.endsWith('.service'))
}

export const unitName = (name: string): string => (name.endsWith('.service') ? name : `${name}.service`)

const properties = [
  'LoadState',
  'ActiveState',
  'SubState',
  'Result',
  'ExecMainStatus',
  'UnitFileState',
  'Environment',
  'EnvironmentFiles',
  'LimitNOFILE',
  'User',
  'DynamicUser',
  'StateDirectory',
  'ExecStart',
]

export async function readService(unit: string): Promise<Service> {
  const shown = propertiesIn(await systemctl('show', unit, `--property=${properties.join(',')}`))
  const value = (name: string) => shown.get(name)?.[0] ?? ''
  // `show` cannot print credentials.
  const sources = credentialsIn(await systemctl('cat', unit).catch(() => ''))
  const commandLine = /argv\[\]=(.*?) ;/.exec(value('ExecStart'))?.[1] ?? ''
  const environment = environmentOf(value('Environment'), shown.get('EnvironmentFiles') ?? [])
  const [stateDirectory] = value('StateDirectory').split(' ')
  return {
    unit,
    kind: kindOf(commandLine),
    ...withSources(environment, unit, sources),
    state: {
      load: value('LoadState'),
      active: value('ActiveState'),
      sub: value('SubState'),
      result: value('Result'),
      exitStatus: value('ExecMainStatus'),
      atBoot: value('UnitFileState'),
    },
    descriptorLimit: /^\d+$/.test(value('LimitNOFILE')) ? Number(value('LimitNOFILE')) : undefined,
    account: value('DynamicUser') === 'yes' ? undefined : await accountOf(value('User')),
    stateFolder: stateDirectory ? `/var/lib/${stateDirectory}` : undefined,
    commandLine,
  }
}

/** Some properties are printed once for each value. */
function propertiesIn(text: string): Map<string, string[]> {
  const found = new Map<string, string[]>()
  for (const line of text.split('\n')) {
    const [, name, value] = /^(\w+)=(.*)$/.exec(line) ?? []
    if (name && value) found.set(name, [...(found.get(name) ?? []), value])
  }
  return found
}

function kindOf(commandLine: string): ServiceKind | undefined {
  const [program = '', verb] = commandLine.split(' ')
  if (basename(program) === 'gatehouse-edge') return 'edge'
  if (basename(program) === 'nats-server') return 'nats'
  return (['serve', 'edge', 'migrate', 'backup'] as const).find((known) => known === verb)
}

/** Files take precedence over the unit's own values, and later files over earlier ones. */
function environmentOf(own: string, files: readonly string[]): NodeJS.ProcessEnv {
  const environment: NodeJS.ProcessEnv = {}
  for (const assignment of words(own)) {
    const equals = assignment.indexOf('=')
    if (equals > 0) environment[assignment.slice(0, equals)] = assignment.slice(equals + 1)
  }
  for (const file of files.map((each) => each.replace(/ \(ignore_errors=\w+\)$/, '')))
    if (existsSync(file)) Object.assign(environment, parseEnv(readFileSync(file, 'utf8')))
  return environment
}

/** systemctl quotes values with spaces as a shell does. */
export const words = (text: string): string[] =>
  (text.match(/(?:\$?'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\\.|[^\s"'\\])+/g) ?? []).map((word) =>
    word.replace(/\$?'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)"/g, '$1$2').replace(/\\(.)/g, '$1'),
  )

/** The file of each credential in a unit and its drop-ins. An empty assignment resets the earlier ones. */
function credentialsIn(text: string): Map<string, string> {
  const sources = new Map<string, string>()
  for (const line of text.split('\n')) {
    const [, value] = /^LoadCredential=(.*)$/.exec(line.trim()) ?? []
    if (value === '') sources.clear()
    const [, name, file] = /^([^:]+):(\/.+)$/.exec(value ?? '') ?? []
    if (name && file) sources.set(name, file)
  }
  return sources
}

/**
 * The credentials folder exists only while the service runs, with the content from its start. A setting whose file is
 * missing counts as unset: the units then give an empty credential.
 */
function withSources(environment: NodeJS.ProcessEnv, unit: string, sources: ReadonlyMap<string, string>) {
  const folder = `/run/credentials/${unit}/`
  const missingCredentials: Service['missingCredentials'] = []
  const found: NodeJS.ProcessEnv = {}
  for (const [setting, value = ''] of Object.entries(environment)) {
    const file = value.startsWith(folder) ? sources.get(value.slice(folder.length)) : undefined
    const isMissing = file !== undefined && !existsSync(file)
    if (isMissing) missingCredentials.push({ setting, file })
    else found[setting] = file ?? value
  }
  return { environment: found, missingCredentials }
}

async function accountOf(name: string): Promise<Account | undefined> {
  if (name === '') return undefined
  const id = async (flag: string) => Number((await run('id', [flag, name])).stdout)
  try {
    return { name, uid: await id('-u'), gid: await id('-g') }
  } catch {
    return undefined
  }
}
