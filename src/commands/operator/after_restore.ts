import type { Config } from '../../config/config.ts'
import { skipGenerations } from '../../operations/outbox.ts'
import { withDatabase } from '../database.ts'

/**
 * Run it once after the database was restored to an earlier point, before `serve`. Edge nodes accept only higher
 * generations than they know, and the restored sequence is behind: this advances it further than any node can be.
 */
export const afterRestore = (config: Config): Promise<number> =>
  withDatabase(config, async (db) => {
    const { before, after } = await skipGenerations(db)
    console.log(JSON.stringify({ generation_before: before, generation: after }))
    console.error(
      'Anything revoked after the backup is active again. Delete those keys, deactivate those owners and tighten those rules once more.',
    )
    return 0
  })
