import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { parseEnv } from 'node:util'
import { ConfigError } from '../kernel/config_error.ts'
import { clientSettings } from './client.ts'
import { edgeSettings } from './edge.ts'
import { settings } from './server.ts'
import type { Setting } from './setting.ts'
import { version } from './version.ts'

type Values<Settings extends Record<string, Setting<unknown>>> = {
  readonly [Name in keyof Settings]: ReturnType<Settings[Name]['parse']>
}
export type Config = Values<typeof settings>
export type EdgeConfig = Values<typeof edgeSettings>

export const readConfig = (environment: NodeJS.ProcessEnv = process.env): Config => readSettings(settings, environment)
export function readEdgeConfig(environment: NodeJS.ProcessEnv = process.env): EdgeConfig {
  if (!environment.GATEHOUSE_EDGE_NODE)
    throw new ConfigError(
      "GATEHOUSE_EDGE_NODE is not set: this machine is no edge node yet. Run 'gatehouse-edge join' on it: docs/guides/add-an-edge-node.md",
    )
  const config = readSettings(edgeSettings, environment)
  const user = config.GATEHOUSE_NATS_PASSWORD && config.GATEHOUSE_EDGE_NODE
  return { ...config, GATEHOUSE_NATS_USER: config.GATEHOUSE_NATS_USER || user }
}

/** Reads a file in the format of systemd's EnvironmentFile, for commands that systemd does not start. */
export function readEnvironmentFile(file: string): NodeJS.Dict<string> {
  try {
    return parseEnv(readFileSync(file, 'utf8'))
  } catch (cause) {
    throw new ConfigError(`${file} cannot be read: ${(cause as Error).message}`, { cause })
  }
}

/** `gatehouse edge status` needs only the address of the status server. */
export const readEdgeStatusConfig = (environment: NodeJS.ProcessEnv = process.env) =>
  readSettings({ GATEHOUSE_EDGE_STATUS_LISTEN: edgeSettings.GATEHOUSE_EDGE_STATUS_LISTEN }, environment)

/** `gatehouse edge join` writes all other settings, so it needs only the folder of the node's state. */
export const readEdgeFolder = (environment: NodeJS.ProcessEnv = process.env): string =>
  readSettings({ GATEHOUSE_EDGE_FOLDER: edgeSettings.GATEHOUSE_EDGE_FOLDER }, environment).GATEHOUSE_EDGE_FOLDER

/** The token that `gatehouse edge join` exchanges for the other settings. */
export function readJoinToken({ GATEHOUSE_JOIN_TOKEN, GATEHOUSE_JOIN_TOKEN_FILE }: NodeJS.ProcessEnv = process.env) {
  const file = GATEHOUSE_JOIN_TOKEN_FILE
  const token = GATEHOUSE_JOIN_TOKEN || (file && readSecret('GATEHOUSE_JOIN_TOKEN', file))
  if (!token)
    throw new ConfigError("--token TOKEN is required: 'gatehouse nodes invite' on the control plane prints one")
  return token
}

/**
 * For `gatehouse edge` in a container, where `join` writes its settings into the node's folder. The container's
 * environment takes precedence, except for the name under which NATS knows the node.
 */
export function joinedEnvironment(environment: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  const file = join(readEdgeFolder(environment), 'joined.env')
  if (!existsSync(file)) return environment
  const joined = readEnvironmentFile(file)
  const own = Object.entries(environment).filter(([name, value]) => value !== '' && name !== 'GATEHOUSE_EDGE_NODE')
  return { ...joined, ...Object.fromEntries(own) }
}

/** Addresses of the programs on this machine, and which of them packages have installed. */
export function readLocalParts(environment: NodeJS.ProcessEnv = process.env) {
  const { GATEHOUSE_EDGE_STATUS_LISTEN: agent } = readEdgeStatusConfig(environment)
  const { GATEHOUSE_LISTEN: api } = readSettings({ GATEHOUSE_LISTEN: settings.GATEHOUSE_LISTEN }, environment)
  const urlOf = ({ host, port }: typeof api) => {
    const reachable = host.replace(/^0\.0\.0\.0$/, '127.0.0.1').replace(/^::$/, '::1')
    return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`
  }
  return {
    agentUrl: urlOf(agent),
    hasAgent: Boolean(environment.GATEHOUSE_EDGE_STATUS_LISTEN) || existsSync('/usr/bin/gatehouse-edge'),
    apiUrl: urlOf(api),
    hasControlPlane: Boolean(environment.GATEHOUSE_LISTEN) || existsSync('/etc/gatehouse/setup.env'),
  }
}

/** Includes the path of the profiles. Per the XDG base directory specification, a relative path is ignored. */
export function readClientConfig(environment: NodeJS.ProcessEnv = process.env) {
  const { XDG_CONFIG_HOME = '', GATEHOUSE_API_KEY, GATEHOUSE_API_KEY_FILE } = environment
  const folder = isAbsolute(XDG_CONFIG_HOME) ? XDG_CONFIG_HOME : join(homedir(), '.config')
  const { SSH_CONNECTION, DISPLAY, WAYLAND_DISPLAY, VISUAL, EDITOR } = environment
  return {
    ...readSettings(clientSettings, environment),
    apiKeyFile: (!GATEHOUSE_API_KEY && GATEHOUSE_API_KEY_FILE) || undefined,
    profilesFile: join(folder, 'gatehouse', 'profiles.json'),
    version,
    hasScreen: !SSH_CONNECTION && (process.platform !== 'linux' || Boolean(DISPLAY || WAYLAND_DISPLAY)),
    editor: VISUAL || EDITOR || 'vi',
  }
}

/**
 * Reads each setting once. A secret can also be given as NAME_FILE, the path of a file with its value. An empty
 * variable counts as unset: with an empty URL, the driver would connect to a default database.
 */
function readSettings<Settings extends Record<string, Setting<unknown>>>(
  known: Settings,
  environment: NodeJS.ProcessEnv,
): Values<Settings> {
  const entries = Object.entries(known).map(([name, { parse, secret, help, default: fallback }]) => {
    const file = (secret && environment[`${name}_FILE`]) || undefined
    const value = environment[name] || (file && readSecret(name, file)) || fallback
    if (value === undefined)
      throw new ConfigError(`${name} is not set: ${help} docs/guides/install-debian.md shows a whole installation`)
    try {
      return [name, parse(value)]
    } catch (error) {
      if (error instanceof ConfigError) throw new ConfigError(`${name} ${error.message}`)
      throw error
    }
  })
  return Object.freeze(Object.fromEntries(entries)) as Values<Settings>
}

/** Lists the faults of all settings at once, for `gatehouse doctor`. */
export function settingFaults(known: Record<string, Setting<unknown>>, environment: NodeJS.ProcessEnv): string[] {
  return Object.entries(known).flatMap(([name, setting]) => {
    try {
      readSettings({ [name]: setting }, environment)
      return []
    } catch (error) {
      if (error instanceof ConfigError) return [error.message]
      throw error
    }
  })
}

function readSecret(name: string, file: string): string {
  try {
    return readFileSync(file, 'utf8').trimEnd()
  } catch (cause) {
    throw new ConfigError(`${name}_FILE is ${file}, which cannot be read`, { cause })
  }
}
