import { spawn } from 'node:child_process'
import { hash, randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { setTimeout } from 'node:timers/promises'
import { call } from '../call.ts'
import { exits, Failure, usageFailure } from '../exits.ts'
import { parse } from '../flags.ts'
import { write } from '../output/output.ts'
import { log } from '../output/terminal.ts'
import { type ClientConfig, type Profile, type Profiles, readProfiles, writeProfiles } from '../profiles.ts'
import { checkUrl } from './profile_commands.ts'

export const loginHelp = `Sign in with your browser, without a token to copy.

  gatehouse login [--url URL] [--profile NAME] [--no-browser]
      Open the dashboard, where you compare a code and approve. Saves an API key that expires,
      usually after 12 hours, to a profile: --profile, GATEHOUSE_PROFILE, the current profile, or
      'default'. Without --url, the profile's URL is used. --no-browser only prints the address.
  gatehouse logout [--profile NAME]
      Delete that API key, and remove its token from the profile.`

const flags = {
  url: { type: 'string' },
  profile: { type: 'string' },
  'no-browser': { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const

type Started = { id: string; code: string; url: string; expires_in: number; interval: number }
type Collected = { status: string; token?: string; expires_at?: string; api_key_id?: string }

const nameOf = ({ GATEHOUSE_PROFILE }: ClientConfig, known: Profiles, given: unknown): string =>
  typeof given === 'string' ? given : GATEHOUSE_PROFILE || known.current || 'default'

export async function loginCommand(config: ClientConfig, args: string[]): Promise<number> {
  const { values, positionals } = parse(args, flags)
  if (values.help) {
    write(loginHelp)
    return exits.ok.code
  }
  if (positionals.length) throw usageFailure(`unexpected argument: ${positionals.join(' ')}`)
  const known = readProfiles(config.profilesFile)
  const name = nameOf(config, known, values.profile)
  const given = typeof values.url === 'string' ? values.url : known.profiles[name]?.url || config.GATEHOUSE_URL
  if (!given) throw usageFailure('no server configured', 'Name it: gatehouse login --url https://gatehouse.example.com')
  const url = checkUrl(given)

  const verifier = randomBytes(32).toString('base64url')
  const started = await post<Started>(url, '/sign_in/command', {
    challenge: hash('sha256', verifier, 'base64url'),
    client: `gatehouse ${config.version}`,
    // Printable ASCII, as the service requires: the user decides by this text.
    host:
      hostname()
        .replaceAll(/[^\x21-\x7e]/g, '?')
        .slice(0, 100) || 'unknown',
  })
  const page = pageOf(url, started.url)
  const opens = config.hasScreen && values['no-browser'] !== true && openBrowser(page)
  log(`${opens ? 'Opening' : 'Open'} ${page}\nApprove only if the page shows this code: ${started.code}`)
  const { token, expires_at, api_key_id } = await collected(url, started, verifier)
  const profile: Profile = {
    url,
    api_key: token ?? '',
    login: { api_key_id: api_key_id ?? '', expires_at: expires_at ?? '' },
  }
  // Read again: another command may have written it meanwhile.
  const { current, profiles } = readProfiles(config.profilesFile)
  writeProfiles(config.profilesFile, { current: current ?? name, profiles: { ...profiles, [name]: profile } })
  log(`Signed in. Profile '${name}' has an API key that expires at ${expires_at}.`)
  return exits.ok.code
}

export async function logoutCommand(config: ClientConfig, args: string[]): Promise<number> {
  const { values } = parse(args, flags)
  if (values.help) {
    write(loginHelp)
    return exits.ok.code
  }
  const known = readProfiles(config.profilesFile)
  const name = nameOf(config, known, values.profile)
  const profile = known.profiles[name]
  if (!profile?.login || !profile.api_key) throw usageFailure(`profile '${name}' is not signed in with gatehouse login`)
  const connection = { url: profile.url, token: profile.api_key, timeoutMs: 30_000, verbose: false }
  try {
    await call(connection, { method: 'DELETE', path: `/api_keys/${profile.login.api_key_id}` })
  } catch (error) {
    // An expired or deleted key is signed out already.
    if (!(error instanceof Failure) || error.exit !== 'notAllowed') throw error
  }
  const { [name]: _, ...others } = known.profiles
  writeProfiles(config.profilesFile, { ...known, profiles: { ...others, [name]: { url: profile.url } } })
  log(`Signed out of ${profile.url}.`)
  return exits.ok.code
}

/** The page that the service names. Must be a web page, because it opens in a browser; another host gets a note. */
function pageOf(url: string, named: string): string {
  const page = URL.parse(named)
  if (!page || !/^https?:$/.test(page.protocol))
    throw new Failure('unreachable', `The server at ${url} is not Gatehouse.`, ['Check the URL.'])
  if (page.origin !== new URL(url).origin)
    log(`note: the dashboard of ${url} is at ${page.origin}. Go on only if you know that address.`)
  return page.href
}

async function collected(url: string, { id, interval, expires_in }: Started, verifier: string): Promise<Collected> {
  const end = Date.now() + expires_in * 1_000
  while (Date.now() < end) {
    const answer = await post<Collected>(url, '/sign_in/command/token', { id, verifier })
    if (answer.status === 'approved') return answer
    if (answer.status === 'denied') throw new Failure('notAllowed', 'The sign-in was denied on the page.')
    if (answer.status !== 'pending') break
    await setTimeout(Math.max(1, interval) * 1_000)
  }
  throw new Failure('notAllowed', 'The sign-in was not approved in time. Run gatehouse login again.')
}

/** Without a token, because there is none yet. */
async function post<Answer>(url: string, path: string, body: object): Promise<Answer> {
  const connection = { url, token: 'none', timeoutMs: 30_000, verbose: false }
  const { text } = await call(connection, { method: 'POST', path, body: JSON.stringify(body) })
  return JSON.parse(text) as Answer
}

const openers: Partial<Record<NodeJS.Platform, string[]>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
  linux: ['xdg-open'],
}

/** Best effort: the address is printed anyway. */
function openBrowser(page: string): boolean {
  const [program, ...args] = openers[process.platform] ?? []
  if (!program) return false
  spawn(program, [...args, page], { stdio: 'ignore', detached: true })
    .on('error', () => {})
    .unref()
  return true
}
