import { ago } from '../../kernel/ago.ts'
import { call } from '../call.ts'
import { exits, usageFailure } from '../exits.ts'
import { callFlags, parseOwn } from '../flags.ts'
import { write } from '../output/output.ts'
import { describeOne } from '../output/table.ts'
import { connect } from '../perform.ts'
import { type ClientConfig, chooseProfile } from '../profiles.ts'

const usage = `Show which server and which API key commands use, where both are set, and what the key may do.

Usage
  gatehouse auth status [flags]

Flags
  -o, --output table|json  output format; default table
  --profile NAME           profile to look at instead of the environment or the current profile
  --timeout SECONDS        how long the request may take; default 60
  -h, --help               show this help

Exits with 4 if the service does not accept the token.`

const options = {
  output: { type: 'string', short: 'o', default: 'table' },
  ...callFlags,
} as const

type Caller = {
  account_id: string
  account_name: string
  owner_id: string
  role: string
  api_key: { id: string }
  scopes: string[]
  allowed_cidrs: string[]
  expires_at: string | null
  source_ip: string | null
}

export async function authCommand(config: ClientConfig, args: string[]): Promise<number> {
  const { values, positionals } = parseOwn({ args, options, allowPositionals: true }, usage)
  if (values.help || positionals.length === 0) {
    write(usage)
    return exits.ok.code
  }
  if (positionals.join(' ') !== 'status')
    throw usageFailure(`unknown command 'auth ${positionals.join(' ')}'`, "Did you mean 'gatehouse auth status'?")
  if (!['table', 'json'].includes(values.output)) throw usageFailure('--output must be table or json')
  const { url, urlSource, tokenSource } = chooseProfile(config, values.profile)
  const { text } = await call(connect(config, values), { method: 'GET', path: '/caller' })
  const caller = JSON.parse(text) as Caller
  const shown = {
    url,
    url_from: urlSource,
    token_from: tokenSource,
    account: `${caller.account_name} (${caller.account_id})`,
    owner: `${caller.owner_id} (${caller.role})`,
    api_key: caller.api_key.id,
    scopes: caller.scopes,
    allowed_cidrs: caller.allowed_cidrs,
    expires_at: caller.expires_at,
    source_ip: caller.source_ip,
  }
  if (values.output === 'json') write(JSON.stringify(shown, null, 2))
  else write(describeOne({ ...shown, expires_at: expiry(caller.expires_at) }))
  return exits.ok.code
}

const expiry = (at: string | null): string => (at === null ? 'never' : `${at} (${ago(at)})`)
