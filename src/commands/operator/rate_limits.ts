import type { Config } from '../../config/config.ts'
import { wholeNumber } from '../../config/values.ts'
import { ConfigError } from '../../kernel/config_error.ts'
import { noSuchAccount } from '../accounts/find.ts'
import { listRateLimits, setRateLimit } from '../accounts/rate_limit.ts'
import { withDatabase } from '../database.ts'

const maxRequestsPerMinute = 1_000_000

/** Prints a JSON line for each account affected. Changes apply from the next request, in every process. */
export const rateLimits = (
  config: Config,
  verb: string,
  flags: { account?: string; 'requests-per-minute'?: string },
): Promise<number> =>
  withDatabase(config, async (db) => {
    if (verb === 'list') {
      for (const line of await listRateLimits(db)) console.log(JSON.stringify(line))
      return 0
    }
    const account = flags.account
    const wanted = verb === 'set' ? parsed(flags['requests-per-minute']) : null
    if (!account || (verb !== 'set' && verb !== 'clear'))
      throw new ConfigError(
        'usage: gatehouse rate-limits list | set --account … --requests-per-minute … | clear --account …',
      )
    const done = await setRateLimit(db, account, wanted)
    if (!done) {
      console.error(noSuchAccount(account))
      return 1
    }
    console.log(JSON.stringify(done))
    return 0
  })

function parsed(text: string | undefined): number {
  if (text === undefined) throw new ConfigError('--requests-per-minute is required; 0 means no limit')
  try {
    return wholeNumber(0, maxRequestsPerMinute)(text)
  } catch (error) {
    throw error instanceof ConfigError ? new ConfigError(`--requests-per-minute ${error.message}`) : error
  }
}
