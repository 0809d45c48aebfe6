// The provider block: which service to call, and how.
import { type Connection, Refused } from '../cli/call.ts'
import { usageFailure } from '../cli/exits.ts'
import { type ClientConfig, chooseProfile } from '../cli/profiles.ts'
import { type Api, apiOf } from './api.ts'
import { unknownValue } from './message_pack.ts'
import type { State } from './values.ts'

const setting = (name: string, type: string, description: string, more: object = {}): object => ({
  name,
  type: Buffer.from(JSON.stringify(type)),
  description,
  optional: true,
  ...more,
})

export const providerSchema = {
  version: 0,
  block: {
    description: 'Manages a Gatehouse account.',
    attributes: [
      setting('url', 'string', 'URL of the API. Default: GATEHOUSE_URL, or that of the profile.'),
      setting('api_key', 'string', 'Token of an API key. Default: GATEHOUSE_API_KEY, or that of the profile.', {
        sensitive: true,
      }),
      setting('profile', 'string', "A profile of 'gatehouse profiles', in place of url and api_key."),
      setting(
        'wait',
        'string',
        '"applied": each change waits until the live edge nodes have applied it, for at most 10 seconds. If they have not, there is a warning.',
      ),
      setting('allow_self_lockout', 'bool', 'Make changes that block the address of this machine from the API.'),
    ],
  },
}

/** Undefined while a value is known only after apply. */
export async function configure(
  readConfig: () => ClientConfig,
  given: State,
  stopping: AbortSignal,
): Promise<Api | undefined> {
  if (Object.values(given).includes(unknownValue)) return undefined
  const { wait, allow_self_lockout } = given
  if (wait !== null && wait !== undefined && wait !== 'applied')
    throw usageFailure('wait must be "applied" or not set.')
  const connection = connectionOf(readConfig(), given)
  const api = apiOf(connection, { wait: wait === 'applied', allowSelfLockout: allow_self_lockout === true }, stopping)
  await checkKey(api)
  return api
}

function connectionOf(config: ClientConfig, { url, api_key, profile }: State): Connection {
  const text = (value: State[string] | undefined) => (typeof value === 'string' ? value.replace(/\/$/, '') : '')
  if (text(url) && !text(api_key) && config.GATEHOUSE_URL && config.GATEHOUSE_URL !== text(url))
    throw usageFailure(
      `url is ${text(url)}, but GATEHOUSE_API_KEY is for ${config.GATEHOUSE_URL}, the value of GATEHOUSE_URL.`,
      'A token is not sent to another service. Set api_key, or unset GATEHOUSE_URL.',
    )
  const merged = {
    ...config,
    GATEHOUSE_URL: text(url) || config.GATEHOUSE_URL,
    GATEHOUSE_API_KEY: text(api_key) || config.GATEHOUSE_API_KEY,
  }
  const { tokenSource, ...target } = chooseProfile(merged, text(profile) || undefined)
  return {
    ...target,
    tokenSource: text(api_key) ? 'api_key in the provider block' : tokenSource,
    timeoutMs: 60_000,
    verbose: false,
  }
}

/** Checks the key once; otherwise every resource would fail with the same message. */
async function checkKey(api: Api): Promise<void> {
  try {
    await api.send({ method: 'GET', path: '/caller', parameters: new Set() }, {})
  } catch (error) {
    // The key's scopes need not include this operation.
    if (!(error instanceof Refused) || error.status !== 403 || error.code !== 'ERR_SCOPE') throw error
  }
}
