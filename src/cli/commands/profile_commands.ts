import { call, Refused } from '../call.ts'
import { exits, Failure, usageFailure } from '../exits.ts'
import { parse } from '../flags.ts'
import { write } from '../output/output.ts'
import { describeRows } from '../output/table.ts'
import { askSecret, canAsk, log, readStandardInput } from '../output/terminal.ts'
import { type ClientConfig, type Profile, readProfiles, tokenOf, writeProfiles } from '../profiles.ts'

export const profilesHelp = `Manage profiles. A profile is the URL of a server and an API key.

  gatehouse profiles add NAME --url URL [--api-key-file FILE]
      Save a profile. The token is read from FILE on every use. Without FILE, you are prompted for
      it, or it is read from standard input. It is never an argument, because every user of the
      machine can see process arguments.
  gatehouse profiles list         List profiles, without their tokens.
  gatehouse profiles use NAME     Make a profile the current one.
  gatehouse profiles remove NAME  Remove a profile.

Order of precedence: --profile NAME; GATEHOUSE_URL with GATEHOUSE_API_KEY (or
GATEHOUSE_API_KEY_FILE); GATEHOUSE_PROFILE; the current profile. Profiles are stored in
$XDG_CONFIG_HOME/gatehouse/profiles.json, readable only by you.`

export async function profilesCommand(
  { profilesFile }: ClientConfig,
  [verb = 'help', ...rest]: string[],
): Promise<number> {
  const { values, positionals } = parse(rest, {
    url: { type: 'string' },
    'api-key-file': { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  })
  if (values.help || verb === 'help' || verb === '--help') {
    write(profilesHelp)
    return exits.ok.code
  }
  const known = readProfiles(profilesFile)
  if (verb === 'list') {
    const rows = Object.entries(known.profiles).map(([name, { url, api_key, api_key_file, login }]) => ({
      current: name === known.current ? '*' : '',
      name,
      url,
      token: api_key_file
        ? `in ${api_key_file}`
        : login
          ? `until ${login.expires_at}`
          : api_key
            ? 'saved'
            : 'signed out',
    }))
    if (rows.length)
      write(
        describeRows(
          rows.map(({ token, ...row }) => ({ ...row, api_key: token })),
          ['current', 'name', 'url', 'api_key'],
        ),
      )
    else log('No profiles. Add one with: gatehouse profiles add NAME --url https://…')
    return exits.ok.code
  }
  const [name, ...more] = positionals
  if (!name || more.length)
    throw usageFailure(`profiles ${verb} needs exactly one name`, "See 'gatehouse profiles --help'.")
  switch (verb) {
    case 'add': {
      const url = checkUrl(String(values.url ?? ''))
      const file = values['api-key-file']
      const token = file ? { api_key_file: String(file) } : { api_key: await readToken() }
      await checkToken(name, { url, ...token })
      writeProfiles(profilesFile, {
        current: known.current ?? name,
        profiles: { ...known.profiles, [name]: { url, ...token } },
      })
      log(
        `Saved to ${profilesFile}.${known.current && known.current !== name ? ` Make it the current profile with: gatehouse profiles use ${name}` : ''}`,
      )
      return exits.ok.code
    }
    case 'use':
      if (!known.profiles[name]) throw usageFailure(`there is no profile '${name}'`)
      writeProfiles(profilesFile, { ...known, current: name })
      return exits.ok.code
    case 'remove': {
      if (!known.profiles[name]) throw usageFailure(`there is no profile '${name}'`)
      const { [name]: _, ...profiles } = known.profiles
      writeProfiles(profilesFile, { ...(known.current !== name && { current: known.current }), profiles })
      return exits.ok.code
    }
    default:
      throw usageFailure(`unknown command 'profiles ${verb}'; expected add, list, use or remove`)
  }
}

export function checkUrl(text: string): string {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash || url.username)
    throw usageFailure('--url must be the http or https URL of the service, such as https://gatehouse.example.com')
  return text.replace(/\/+$/, '')
}

/** Does not save a token that the server rejects. Saves it if the server is unreachable. */
async function checkToken(name: string, profile: Profile): Promise<void> {
  try {
    const connection = { url: profile.url, token: tokenOf(name, profile), timeoutMs: 10_000, verbose: false }
    await call(connection, { method: 'GET', path: '/caller' })
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    if (error instanceof Refused && error.status === 401)
      throw new Failure('notAllowed', `${profile.url} does not accept this token. Nothing was saved.`, error.hints)
    log(`warning: the token could not be checked: ${error.message}`)
  }
}

async function readToken(): Promise<string> {
  const token = canAsk() ? await askSecret('API key (hidden): ') : (await readStandardInput()).trim()
  if (!/^[\x21-\x7e]+$/.test(token))
    throw usageFailure('no token was given. Use --api-key-file, or send the token on standard input')
  return token
}
