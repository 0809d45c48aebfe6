import { chmodSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { Failure, usageFailure } from './exits.ts'
import { log } from './output/terminal.ts'

/** A server's URL and an API key: the token itself, or the file with it. */
export type Profile = {
  url: string
  api_key?: string
  api_key_file?: string
  /** Set for a token from `gatehouse login`. */
  login?: { api_key_id: string; expires_at: string }
}
export type Profiles = { current?: string; profiles: Record<string, Profile> }

/** The client's environment variables, as read by config.ts. */
export type ClientConfig = {
  readonly GATEHOUSE_URL: string
  readonly GATEHOUSE_API_KEY: string
  /** The file with the key, if it came from one. */
  readonly apiKeyFile: string | undefined
  readonly GATEHOUSE_PROFILE: string
  readonly profilesFile: string
  readonly version: string
  /** Whether a browser opened on this machine would be visible to the user. */
  readonly hasScreen: boolean
  /** A shell command. */
  readonly editor: string
}

export function readProfiles(file: string): Profiles {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { profiles: {} }
    throw new Failure('usage', `${file} cannot be read: ${(error as Error).message}`)
  }
  if (statSync(file).mode & 0o077)
    log(`warning: ${file} contains tokens and other users can read it. Run: chmod 600 ${file}`)
  try {
    const { current, profiles } = JSON.parse(text) as Profiles
    return { ...(current && { current }), profiles: Object.assign(Object.create(null), profiles) }
  } catch {
    throw usageFailure(`${file} is not valid JSON. Correct it, or delete it and add the profiles again.`)
  }
}

/** Writes to a temporary file and renames it, so that concurrent readers see the old or the new contents. */
export function writeProfiles(file: string, profiles: Profiles): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const beside = `${file}.${process.pid}`
  writeFileSync(beside, `${JSON.stringify(profiles, null, 2)}\n`, { mode: 0o600 })
  chmodSync(beside, 0o600)
  renameSync(beside, file)
}

/** The service and token to use, and where each is configured. */
export type Target = { url: string; token: string; urlSource: string; tokenSource: string }

/**
 * --profile, then the environment, then GATEHOUSE_PROFILE, then the current profile. An address and a token always come
 * from the same place: one installation's token must not be sent to another.
 */
export function chooseProfile(config: ClientConfig, named: string | undefined): Target {
  const { GATEHOUSE_URL: url, GATEHOUSE_API_KEY: token } = config
  if (!named && (url || token)) {
    const variable = config.apiKeyFile ? `GATEHOUSE_API_KEY_FILE (${config.apiKeyFile})` : 'GATEHOUSE_API_KEY'
    if (url && token) return { url, token, urlSource: 'GATEHOUSE_URL', tokenSource: variable }
    const missing = url ? 'GATEHOUSE_API_KEY (or GATEHOUSE_API_KEY_FILE)' : 'GATEHOUSE_URL'
    throw usageFailure(`${missing} is not set, but its counterpart is. Set both, or choose a profile with --profile.`)
  }
  const { current, profiles } = readProfiles(config.profilesFile)
  const name = named ?? (config.GATEHOUSE_PROFILE || current)
  if (name === undefined)
    throw usageFailure(
      'no server configured',
      'Set GATEHOUSE_URL and GATEHOUSE_API_KEY, or save a profile: gatehouse profiles add NAME --url https://…',
    )
  const profile = profiles[name]
  if (!profile)
    throw usageFailure(`there is no profile '${name}'`, "Run 'gatehouse profiles list' to see all profiles.")
  const urlSource = `profile '${name}' (${config.profilesFile})`
  const tokenSource = profile.api_key_file ? `profile '${name}' (file ${profile.api_key_file})` : urlSource
  return { url: profile.url, token: tokenOf(name, profile), urlSource, tokenSource }
}

export function tokenOf(name: string, { api_key, api_key_file, login }: Profile): string {
  if (login && Date.parse(login.expires_at) <= Date.now())
    throw usageFailure(`the sign-in of profile '${name}' expired at ${login.expires_at}`, 'Run: gatehouse login')
  if (api_key) return api_key
  if (!api_key_file) throw usageFailure(`profile '${name}' is signed out`, 'Run: gatehouse login')
  try {
    return readFileSync(api_key_file, 'utf8').trim()
  } catch (cause) {
    throw new Failure('usage', `the token file ${api_key_file} of profile '${name}' cannot be read`, [], {
      cause,
    })
  }
}
