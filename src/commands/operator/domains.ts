import type { Config } from '../../config/config.ts'
import { ConfigError } from '../../kernel/config_error.ts'
import { domainFault } from '../../kernel/edge/domains.ts'
import { Refusal } from '../../kernel/errors.ts'
import { assignDomain, listDomains, unassignDomain } from '../accounts/domains.ts'
import { noSuchAccount } from '../accounts/find.ts'
import { withDatabase } from '../database.ts'

const usage = 'usage: gatehouse domains list | assign ACCOUNT DOMAIN | unassign ACCOUNT DOMAIN'

/** Prints a JSON line for each domain affected. */
export const domains = (config: Config, verb: string, args: readonly string[]): Promise<number> =>
  withDatabase(config, async (db) => {
    if (verb === 'list' && args.length === 0) {
      for (const line of await listDomains(db)) console.log(JSON.stringify(line))
      return 0
    }
    const [account, domain, ...more] = args
    if ((verb !== 'assign' && verb !== 'unassign') || !account || !domain || more.length > 0)
      throw new ConfigError(usage)
    const fault = domainFault(domain)
    if (fault) throw new ConfigError(`DOMAIN ${fault}`)
    try {
      const done = await (verb === 'assign' ? assignDomain : unassignDomain)(db, account, domain.toLowerCase())
      if (typeof done === 'string') {
        console.error(
          done === 'no account' ? noSuchAccount(account) : `gatehouse: ${domain} is not assigned to ${account}`,
        )
        return 1
      }
      console.log(JSON.stringify(done))
      return 0
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      console.error(`gatehouse: ${error.message}`)
      return 1
    }
  })
