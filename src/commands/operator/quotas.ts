import type { Config } from '../../config/config.ts'
import { wholeNumber } from '../../config/values.ts'
import { ConfigError } from '../../kernel/config_error.ts'
import { highestQuota, isQuotaKind, type QuotaKind, quotaKinds } from '../../kernel/quotas.ts'
import { noSuchAccount } from '../accounts/find.ts'
import { listQuotas, setQuota } from '../accounts/quotas.ts'
import { withDatabase } from '../database.ts'

/** Prints a JSON line for each quota affected. Changes apply from the next request, in every process. */
export const quotas = (
  config: Config,
  verb: string,
  flags: { account?: string; kind?: string; limit?: string },
): Promise<number> =>
  withDatabase(config, async (db) => {
    if (verb === 'list') {
      for (const line of await listQuotas(db)) console.log(JSON.stringify(line))
      return 0
    }
    const { account } = flags
    if (!account || (verb !== 'set' && verb !== 'clear'))
      throw new ConfigError(
        'usage: gatehouse quotas list | set --account … --kind … --limit … | clear --account … --kind …',
      )
    const kind = kindIn(flags.kind)
    const done = await setQuota(db, account, kind, verb === 'set' ? limitIn(flags.limit, kind) : null)
    if (!done) {
      console.error(noSuchAccount(account))
      return 1
    }
    console.log(JSON.stringify(done))
    return 0
  })

function kindIn(text = ''): QuotaKind {
  if (isQuotaKind(text)) return text
  throw new ConfigError(`--kind must be one of ${Object.keys(quotaKinds).join(', ')}`)
}

function limitIn(text: string | undefined, kind: QuotaKind): number {
  if (text === undefined) throw new ConfigError('--limit is required')
  try {
    return wholeNumber(0, highestQuota(kind))(text)
  } catch (error) {
    throw error instanceof ConfigError ? new ConfigError(`--limit ${error.message}`) : error
  }
}
