import { exits, usageFailure } from './exits.ts'
import { parse } from './flags.ts'
import { write } from './output.ts'
import { type ClientConfig, readProfiles, writeProfiles } from './profiles.ts'
import { describeRows } from './table.ts'
import { askSecret, canAsk, log, readStandardInput } from './terminal.ts'

export const profilesHelp = `Where to connect, and as whom.

  gatehouse profiles add NAME --url URL [--api-key-file FILE]
      saves one. The token comes from FILE, which is read each time; or it is asked for; or it is read from standard
      input. It is never an argument: those can be seen by everyone on the machine.
  gatehouse profiles list      those that are saved, without their tokens
  gatehouse profiles use NAME  makes it the one that is used when nothing else is said
  gatehouse profiles remove NAME

What is used: --profile NAME, else GATEHOUSE_URL with GATEHOUSE_API_KEY (or GATEHOUSE_API_KEY_FILE), else
GATEHOUSE_PROFILE, else the current profile. They are in $XDG_CONFIG_HOME/gatehouse/profiles.json, for your eyes only.`

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
    const rows = Object.entries(known.profiles).map(([name, { url, api_key_file }]) => ({
      current: name === known.current ? '*' : '',
      name,
      url,
      token: api_key_file ? `in ${api_key_file}` : 'saved',
    }))
    if (rows.length)
      write(
        describeRows(
          rows.map(({ token, ...row }) => ({ ...row, api_key: token })),
          ['current', 'name', 'url', 'api_key'],
        ),
      )
    else log('There are none. gatehouse profiles add NAME --url https://… makes one.')
    return exits.ok.code
  }
  const [name, ...more] = positionals
  if (!name || more.length) throw usageFailure(`profiles ${verb} needs one name`, 'gatehouse profiles --help')
  switch (verb) {
    case 'add': {
      const url = checkUrl(String(values.url ?? ''))
      const file = values['api-key-file']
      const token = file ? { api_key_file: String(file) } : { api_key: await readToken() }
      writeProfiles(profilesFile, {
        current: known.current ?? name,
        profiles: { ...known.profiles, [name]: { url, ...token } },
      })
      log(
        `saved in ${profilesFile}${known.current && known.current !== name ? `; gatehouse profiles use ${name} makes it the current one` : ''}`,
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
      throw usageFailure(`profiles knows add, list, use and remove, not '${verb}'`)
  }
}

function checkUrl(text: string): string {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash || url.username)
    throw usageFailure('--url must be the http or https address of the service, such as https://gatehouse.example.com')
  return text.replace(/\/+$/, '')
}

async function readToken(): Promise<string> {
  const token = canAsk() ? await askSecret('API key (it is not shown): ') : (await readStandardInput()).trim()
  if (!/^[\x21-\x7e]+$/.test(token))
    throw usageFailure('there is no token: give --api-key-file, or the token alone on standard input')
  return token
}
