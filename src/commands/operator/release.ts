import type { RestrictionType } from '../../access/policies.ts'
import { raisePolicyRevision } from '../../access/self_lockout.ts'
import type { Config } from '../../config/config.ts'
import { transaction } from '../../db/transaction.ts'
import { newId, toId } from '../../kernel/ids.ts'
import { recordChange } from '../../operations/audit.ts'
import { listEnforced, updateIpRestriction } from '../../resources/ip_restrictions/store.ts'
import { toIpRestriction } from '../../resources/ip_restrictions/view.ts'
import { findAccount, noSuchAccount } from '../accounts/find.ts'
import { withDatabase } from '../database.ts'

/**
 * For an account that locked itself out: its restrictions of one type warn instead of refusing until an admin enforces
 * them again. Needs only the database, and writes an audit event like any other change.
 */
export const release = (config: Config, wanted: { account: string; type: RestrictionType }): Promise<number> =>
  withDatabase(config, async (db) => {
    const account = await findAccount(db, wanted.account)
    if (!account) {
      console.error(noSuchAccount(wanted.account))
      return 1
    }
    const caller = { accountId: account.id }
    const origin = { accountId: account.id, operation: 'server.ip_restrictions.release', operationId: newId('op') }
    const uri = (path: string) => config.GATEHOUSE_PUBLIC_URL + path
    const released = await transaction(db, async (tx) => {
      await raisePolicyRevision(tx, caller)
      const rows = await listEnforced(tx, caller, wanted.type)
      for (const row of rows) {
        const after = await updateIpRestriction(tx, caller, { ...row, enforced: false })
        const change = { before: toIpRestriction(row, uri), after: toIpRestriction(after, uri) }
        await recordChange(tx, origin, { resourceId: change.after.id, ...change })
      }
      return rows
    })
    for (const { id } of released) console.log(`${toId('ipx', id)} now warns instead of refusing`)
    if (released.length === 0) console.log(`account ${account.name} enforces no IP restriction of type ${wanted.type}`)
    return 0
  })
